/** Control characters, also above 0x7f, line breaks of Unicode, and characters that turn the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const controls = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/

/**
 * Control characters, and characters without a shape. These are Unicode's Default_Ignorable_Code_Point, and a few more.
 * With them a reader takes two names for one, or a name for an empty one. Unpaired surrogates are no text. The joiners
 * U+200C and U+200D stay: Persian, the languages of India and emoji need them. U+FE0F stays right after a character
 * that it turns into an emoji.
 */
const unprintable =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
  /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\u2800\ufff9-\ufffb\p{Surrogate}]|(?![\u200c\u200d]|(?<=[\p{Emoji}--[0-9#*]])\ufe0f)\p{Default_Ignorable_Code_Point}/gv

/** Quick check, since most texts have none of them. It matches U+FE0F at any place. */
const maybeUnprintable =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\u2800\ufff9-\ufffb\p{Surrogate}[\p{Default_Ignorable_Code_Point}--[\u200c\u200d]]]/v

/** True if the text would steer a terminal. */
export function hasControls(text: string): boolean {
  return controls.test(text)
}

export function isPrintable(text: string): boolean {
  return printable(text) === text
}

/** Returns one line for people. Text of others is shown, but cannot steer a terminal, and hides nothing. */
export function printable(text: string): string {
  return printableLines(text).replaceAll('\n', '?')
}

/**
 * Returns the text as one word of a line. A text that is no word, or that could pass for two or for none, is quoted as
 * JSON.
 */
export function asWord(text: string): string {
  return isPrintable(text) && /^[^\s"'`\\]+$/.test(text) ? text : printableJson(text)
}

/** The same for several lines: their ends stay. */
export function printableLines(text: string): string {
  return replaced(text, () => '?')
}

/** Returns JSON in which the characters that `printable` replaces are escaped: it parses to the same value. */
export function printableJson(value: unknown, indent?: number): string {
  return escapedJson(JSON.stringify(value, undefined, indent))
}

/** The same for JSON text; its own line breaks stay. */
export function escapedJson(json: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return replaced(json, (sign) => sign.split('').map(escaped).join(''))
}

/** Replaces all unprintable characters but line ends. */
function replaced(text: string, replace: (sign: string) => string): string {
  if (!maybeUnprintable.test(text)) return text
  return text.replaceAll(unprintable, (sign) => (sign === '\n' ? sign : replace(sign)))
}
