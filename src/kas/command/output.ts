import { printableJson } from '../../lib/printable.ts'
import { type CliIo, type CliValues, UsageError } from './command.ts'

/** Options for the printed form of a command's data. `readPrinting` reads them. */
export const outputOptions = {
  output: { type: 'string', short: 'o', multiple: true },
  'no-headers': { type: 'boolean' },
  'no-color': { type: 'boolean' },
  quiet: { type: 'boolean', short: 'q' },
} as const

/** Formats of a command that prints data. Tables are for people and may change; other formats are for programs. */
export const outputs = ['table', 'wide', 'name', 'json', 'yaml'] as const
export type Output = (typeof outputs)[number]

/** Hints for unknown options, by name without dashes. */
export const outputHints = { json: 'JSON is printed with -o json' } as const

/** Lists the formats for the help of a command. */
export function outputChoice(allowed: readonly Output[]): string {
  return `${allowed.join(', ').replace(/, (?=[^,]*$)/, ' or ')} (default: table)`
}

/** Help texts of the options except `--output`. */
export const outputTexts = {
  'no-headers': 'leave out the heads of tables',
  'no-color': 'print no colours; NO_COLOR of the environment does the same',
  quiet: 'print nothing but errors: the exit code is the answer',
} as const

/**
 * Returns the lines of the help about these options, each with a line break.
 *
 * @param width - characters of the column with the options
 */
export function outputHelp(allowed: readonly Output[], width = 29): string {
  const lines = [
    ['-o, --output FORMAT', outputChoice(allowed)],
    ['--no-headers', outputTexts['no-headers']],
    ['--no-color', outputTexts['no-color']],
    ['-q, --quiet', outputTexts.quiet],
  ] as const
  return lines.map(([option, text]) => `  ${option.padEnd(width)}${text}\n`).join('')
}

/** The form in which a command prints its data. */
export interface Printing {
  readonly output: Output
  /** true: tables have heads */
  readonly hasHeaders: boolean
  /** replaces the `io` of the command from now on */
  readonly io: CliIo
}

/**
 * Reads `outputOptions`. `--quiet` mutes stdout and stderr: `runCli` writes the text for stderr if the command fails.
 *
 * @throws UsageError that says what is allowed, or which options exclude each other
 */
export function readPrinting(values: CliValues, allowed: readonly Output[], io: CliIo): Printing {
  const output = outputOf(values, allowed)
  const hasHeaders = values['no-headers'] !== true
  if (!hasHeaders && output !== 'table' && output !== 'wide')
    throw new UsageError(`--no-headers goes with tables, and -o ${output} has no heads: leave out one of both`)
  if (values.quiet === true) {
    if (values.output !== undefined)
      throw new UsageError(`-q prints no data, and -o ${output} says how to print it: leave out one of both`)
    const endless = ['watch', 'follow'].find((name) => values[name] === true)
    if (endless) throw new UsageError(`-q prints no changes, and --${endless} has no end: leave out one of both`)
    io.stdout.mute()
    io.stderr.mute()
  }
  return { output, hasHeaders, io: values['no-color'] === true ? colourless(io) : io }
}

function colourless(io: CliIo): CliIo {
  return Object.create(io, { env: { value: { ...io.env, NO_COLOR: '1' } } }) as CliIo // stdin stays unopened
}

/**
 * Returns the format. `--watch` excludes `name`, because names do not show changes.
 *
 * @throws UsageError that says what is allowed
 */
export function outputOf({ output, watch }: CliValues, allowed: readonly Output[]): Output {
  const said = Array.isArray(output) ? output.map(String) : []
  if (said.length > 1) throw new UsageError(`-o is said ${said.length} times: ${said.join(', ')}`)
  const [one = 'table'] = said
  const [usable, beside] = watch === true ? [allowed.filter((each) => each !== 'name'), ' with --watch'] : [allowed, '']
  const found = usable.find((each) => each === one)
  if (found === undefined) throw new UsageError(`-o ${one}${beside}: allowed is ${usable.join(', ')}`)
  return found
}

/**
 * Output for programs, each kind an interface in a file `output-kinds.ts`. Names are whole words in camelCase, and
 * unknown values are absent. `npm run output` writes doc/reference/output.md from these interfaces.
 */
export interface OutputKind<Name extends string = string> {
  /** version of the format */
  readonly apiVersion: 'kas/v1'
  /** name of the kind */
  readonly kind: Name
}

/**
 * Time in UTC, in the format of RFC 3339.
 *
 * @format date-time
 */
export type Time = string

/**
 * Whole number from 0.
 *
 * @asType integer
 * @minimum 0
 */
export type Count = number

/** Data of a command, for people and for programs. */
export interface Data<Kind extends OutputKind = OutputKind> {
  readonly kind: Kind['kind']
  /** fields beside `apiVersion` and `kind` */
  readonly fields: Omit<Kind, keyof OutputKind>
  /** names of the items, as `agent/NAME`; absent: the items have no names */
  readonly names?: readonly string[]
  /** returns a table for people; it ends with a line break */
  table(isWide: boolean, hasHeaders?: boolean): string
}

/** Returns the data in the format; the text ends with a line break. */
export async function dataText(data: Data, output: Output, hasHeaders = true): Promise<string> {
  const { kind, fields, names = [] } = data
  const whole = { apiVersion: 'kas/v1', kind, ...fields }
  if (output === 'json') return `${printableJson(whole, 2)}\n`
  if (output === 'yaml') {
    const { yamlText } = await import('./yaml-text.ts') // loaded only here: most commands need no YAML
    return yamlText(whole)
  }
  if (output === 'name') return names.map((name) => `${name}\n`).join('')
  return data.table(output === 'wide', hasHeaders)
}
