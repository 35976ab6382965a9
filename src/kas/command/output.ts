import { printableJson } from '../../lib/printable.ts'
import { type CliValues, UsageError } from './command.ts'

/** One option says how a command prints its data. */
export const outputOption = { output: { type: 'string', short: 'o', multiple: true } } as const

/** The formats of a command that prints data. A table is for people, and may change; the others are for programs. */
export const outputs = ['table', 'wide', 'name', 'json', 'yaml'] as const
export type Output = (typeof outputs)[number]

/** For an option that other commands had once. */
export const outputHints = { json: 'JSON is printed with -o json' } as const

/** Names the formats for a help. */
export function outputChoice(allowed: readonly Output[]): string {
  return `${allowed.join(', ').replace(/, (?=[^,]*$)/, ' or ')} (default: table)`
}

/** A line of the help, with its end. */
export function outputHelp(allowed: readonly Output[]): string {
  return `  -o, --output FORMAT          ${outputChoice(allowed)}\n`
}

/** With `--watch` there are no names: they say nothing of what has changed. @throws UsageError that says what is allowed */
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
 * What programs read, each kind an interface in a file `output-kinds.ts`. Names are in camelCase and whole words, and
 * what is not known is absent. `npm run output` writes doc/reference/output.md from these interfaces.
 */
export interface OutputKind<Name extends string = string> {
  /** version of the format */
  readonly apiVersion: 'kas/v1'
  /** what this is */
  readonly kind: Name
}

/**
 * Time as RFC 3339 has it, in UTC.
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

/** The data of a command, for people and for programs. */
export interface Data<Kind extends OutputKind = OutputKind> {
  readonly kind: Kind['kind']
  /** what stands beside `apiVersion` and `kind` */
  readonly fields: Omit<Kind, keyof OutputKind>
  /** one a line, as `agent/NAME`; absent: nothing has a name */
  readonly names?: readonly string[]
  /** for people, with its end */
  table(isWide: boolean): string
}

/** @returns text with its end */
export async function dataText(data: Data, output: Output): Promise<string> {
  const { kind, fields, names = [] } = data
  const whole = { apiVersion: 'kas/v1', kind, ...fields }
  if (output === 'json') return `${printableJson(whole, 2)}\n`
  if (output === 'yaml') {
    const { yamlText } = await import('./yaml-text.ts') // here: a help needs none of it
    return yamlText(whole)
  }
  if (output === 'name') return names.map((name) => `${name}\n`).join('')
  return data.table(output === 'wide')
}
