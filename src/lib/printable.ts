/** Controls, those above 0x7f too, line breaks of Unicode, and signs that turn the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const controls = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/

/**
 * Controls, and signs without a shape: all that Unicode names Default_Ignorable_Code_Point, and the few without a shape that it does not. With
 * them a reader takes two names for the same one, or a name for an empty one. Halves of a sign are no text. The joiners U+200C and U+200D stay:
 * Persian, the languages of India and emoji need them. U+FE0F stays right after a sign that it turns into an emoji.
 */
const unprintable =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
  /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\u2800\ufff9-\ufffb\p{Surrogate}]|(?![\u200c\u200d]|(?<=[\p{Emoji}--[0-9#*]])\ufe0f)\p{Default_Ignorable_Code_Point}/gv

/** Quick, as most texts have none of them; of U+FE0F it is not said where it stands. */
const maybeUnprintable =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\u2800\ufff9-\ufffb\p{Surrogate}[\p{Default_Ignorable_Code_Point}--[\u200c\u200d]]]/v

/** Whether it would steer a terminal. */
export function hasControls(text: string): boolean {
  return controls.test(text)
}

export function isPrintable(text: string): boolean {
  return printable(text) === text
}

/** One line for people: what others have named or said is shown, but does not steer a terminal, and hides nothing. */
export function printable(text: string): string {
  return printableLines(text).replaceAll('\n', '?')
}

/** As one word of a line: what is none, and could pass for two, or for nothing, is in quotes as JSON has it. */
export function asWord(text: string): string {
  return isPrintable(text) && /^[^\s"'`\\]+$/.test(text) ? text : printableJson(text)
}

/** The same of several lines: their ends stay. */
export function printableLines(text: string): string {
  return replaced(text, () => '?')
}

/** JSON with what `printable` would replace escaped: it reads as the same. */
export function printableJson(value: unknown, indent?: number): string {
  return escapedJson(JSON.stringify(value, undefined, indent))
}

/** The same of JSON that is made already; its own line breaks stay. */
export function escapedJson(json: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return replaced(json, (sign) => sign.split('').map(escaped).join(''))
}

/** All but line ends. */
function replaced(text: string, replace: (sign: string) => string): string {
  if (!maybeUnprintable.test(text)) return text
  return text.replaceAll(unprintable, (sign) => (sign === '\n' ? sign : replace(sign)))
}
