// Requests to the server. Every error is an Error whose message is the server's sentence.

export const OBJECTIVES = { "mlm-u": "MLM-U", "next-token": "next token" };

export async function getJSON(path) {
  return answer(await fetch(path, { headers: { Accept: "application/json" } }));
}

export async function postJSON(path, value, signal) {
  return answer(await post(path, value, "application/json", signal));
}

export async function postForBlob(path, value) {
  const response = await post(path, value, "*/*");
  if (!response.ok) await answer(response);
  return response.blob();
}

/** Call `onEvent(name, data)` for every server-sent event of a POST request. */
export async function postForEvents(path, value, onEvent, signal) {
  const response = await post(path, value, "text/event-stream", signal);
  if (!response.ok) await answer(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value: chunk, done } = await reader.read();
    if (done) return;
    text += chunk;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("data")) onEvent(field("event"), JSON.parse(field("data")));
    }
  }
}

function post(path, value, accept, signal) {
  const body = value instanceof Blob ? value : JSON.stringify(value);
  const type = value instanceof Blob ? "application/octet-stream" : "application/json";
  return fetch(path, { method: "POST", body, signal, headers: { "Content-Type": type, Accept: accept } });
}

async function answer(response) {
  const value = await response.json().catch(() => null);
  if (!response.ok) throw new Error(value?.error || `The server answered with status ${response.status}.`);
  return value;
}
