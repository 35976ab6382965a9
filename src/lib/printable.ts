/**
 * What others have named or said is shown, but does not steer a terminal: controls, those above 0x7f too, line breaks of
 * Unicode, and what turns the direction of text.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const controls = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g

export function hasControls(text: string): boolean {
  return text.search(controls) >= 0
}

export function printable(text: string): string {
  return text.replaceAll(controls, '?')
}

/** JSON with what would steer the terminal escaped: it reads as the same. */
export function printableJson(value: unknown, indent?: number): string {
  return escapedJson(JSON.stringify(value, undefined, indent))
}

/** The same of JSON that is made already; its own line breaks stay. */
export function escapedJson(json: string): string {
  return json.replaceAll(controls, (sign) =>
    sign === '\n' ? sign : `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
