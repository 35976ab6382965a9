import { isUtf8 } from 'node:buffer'

/**
 * Reads a plain scalar by the rules of Go's YAML 1.1, as kubectl does. `y` and `on` are true, `0644` is 420. Dates and
 * `12:30:45` are text.
 *
 * @returns a bigint for a whole number that the API server can keep and a JavaScript number cannot
 */
export function goScalar(text: string): string | number | bigint | boolean | null {
  const named = names.get(text)
  if (named !== undefined) return named
  if (!/^[-+.\d]/.test(text)) return text
  if (/^(?:0|[1-9]\d{0,14})$/.test(text)) return Number(text)
  if (text.startsWith('.') && /\D_|_\D|_$/.test(text)) return text // only here Go checks the places of underscores
  const plain = text.replaceAll('_', '')
  const whole = wholeNumber(plain)
  if (whole !== undefined) return inNumber(whole)
  if (!/^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/.test(plain)) return text
  const float = Number(plain)
  return Number.isFinite(float) ? float + 0 : text
}

/**
 * Reads a scalar with a tag. A tag that Go does not know leaves the text as it is.
 *
 * @param tag - as written: `!!int`
 * @returns undefined: the text is no value of the tag
 */
export function goTaggedScalar(tag: string, text: string): ReturnType<typeof goScalar> | undefined {
  const name = tag.replace(/^!!|^!<tag:yaml\.org,2002:(.*)>$/, '$1')
  if (name === 'binary') return ofBase64(text)
  const value = goScalar(text)
  const isNumber = typeof value === 'number' || typeof value === 'bigint'
  if (name === 'int') return isNumber && Number.isInteger(Number(value)) ? value : undefined
  if (name === 'float') return isNumber ? Number(value) : undefined
  if (name === 'bool') return typeof value === 'boolean' ? value : undefined
  if (name === 'null') return value === null ? value : undefined
  return text
}

function ofBase64(text: string): string | undefined {
  const bytes = Buffer.from(text, 'base64')
  const isBase64 = bytes.toString('base64') === text.replaceAll(/\s/g, '')
  return isBase64 && isUtf8(bytes) ? bytes.toString() : undefined
}

const names = new Map<string, boolean | null | number>([
  ...['y', 'Y', 'yes', 'Yes', 'YES', 'true', 'True', 'TRUE', 'on', 'On', 'ON'].map((name) => [name, true] as const),
  ...['n', 'N', 'no', 'No', 'NO', 'false', 'False', 'FALSE', 'off', 'Off', 'OFF'].map((name) => [name, false] as const),
  ...['', '~', 'null', 'Null', 'NULL'].map((name) => [name, null] as const),
  ...['.nan', '.NaN', '.NAN'].map((name) => [name, Number.NaN] as const),
  ...['.inf', '.Inf', '.INF', '+.inf', '+.Inf', '+.INF'].map((name) => [name, Number.POSITIVE_INFINITY] as const),
  ...['-.inf', '-.Inf', '-.INF'].map((name) => [name, Number.NEGATIVE_INFINITY] as const),
])

const wholeForms: readonly (readonly [RegExp, string])[] = [
  [/^[-+]?0[xX]([\da-fA-F]+)$/, '0x'],
  [/^[-+]?0[bB]([01]+)$/, '0b'],
  [/^[-+]?0[oO]?([0-7]+)$/, '0o'],
  [/^[-+]?(0|[1-9]\d*)$/, ''],
]

/** Binary digits of 64 bits. */
const maxDigits = 64

/** @returns undefined for a number that needs more than 64 bits */
function wholeNumber(plain: string): bigint | undefined {
  for (const [form, prefix] of wholeForms) {
    const [, digits] = form.exec(plain) ?? []
    if (digits === undefined || digits.length > maxDigits) continue
    const whole = plain.startsWith('-') ? -BigInt(prefix + digits) : BigInt(prefix + digits)
    return whole >= -(2n ** 63n) && whole < 2n ** 64n ? whole : undefined
  }
  return undefined
}

/** Returns a float for a number of more than 63 bits, as the API server does. */
function inNumber(whole: bigint): number | bigint {
  const isExact = whole >= BigInt(Number.MIN_SAFE_INTEGER) && whole <= BigInt(Number.MAX_SAFE_INTEGER)
  return isExact || whole >= 2n ** 63n ? Number(whole) : whole
}
