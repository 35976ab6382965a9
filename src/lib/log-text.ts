import { asWord, printable, printableJson } from './printable.ts'

/** Width of the longest level, so that sentences begin below one another. */
const levelWidth = 5

interface LoggedError {
  readonly message?: unknown
  readonly code?: unknown
  readonly stack?: unknown
  readonly cause?: LoggedError
}

/**
 * Writes a line of the log for people: time, level, part, sentence, then the fields as `name=value`. The causes of an
 * error follow it. Its stack has indented lines below.
 *
 * @param json - a line as `createLogger` makes it
 */
export function textLine(json: string): string {
  const { time, level, mod_name: part, msg, error, ...fields } = JSON.parse(json) as Record<string, unknown>
  const words = Object.entries(fields).map(([name, value]) => `${asWord(name)}=${valueText(value)}`)
  const sentence = [part === undefined ? '' : `${printable(String(part))}:`, printable(String(msg ?? ''))]
  const errors = error === undefined ? [] : [`error=${errorText(error as LoggedError)}`]
  const head = [String(time), String(level).toUpperCase().padEnd(levelWidth), ...sentence.filter(Boolean)].join(' ')
  return `${[head, ...words, ...errors].join('  ')}\n${stackLines(error as LoggedError | undefined)}`
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? asWord(value) : printableJson(value)
}

function errorText({ message, code, cause }: LoggedError): string {
  const text = printableJson(String(message ?? ''))
  return `${text}${code === undefined ? '' : ` (${printable(String(code))})`}${cause ? `, by ${errorText(cause)}` : ''}`
}

/** The stack of a fault of the program, without its first line, which repeats the message. */
function stackLines(error: LoggedError | undefined): string {
  if (!error) return ''
  const [, ...lines] = typeof error.stack === 'string' ? error.stack.split('\n') : []
  return `${lines.map((line) => `    ${printable(line.trim())}\n`).join('')}${stackLines(error.cause)}`
}
