import type { Command, CommandGroup } from '../../command/command.ts'
import { programOptions, subcommands } from '../program.ts'

/** Words and options that may follow a line. */
export interface Place {
  /** words after `kas`, with spaces between; empty: none yet */
  readonly at: string
  readonly words: readonly string[]
  readonly options: readonly PlaceOption[]
}

export interface PlaceOption {
  readonly name: string
  readonly short?: string | undefined
  readonly takesValue: boolean
  /** all possible values, if they are known */
  readonly values?: readonly string[] | undefined
}

const helpOption = { help: { type: 'boolean', short: 'h' } } as const

/** Returns the tables by which commands read their options, in the order of `kas --help`. */
export async function commandTree(groups: readonly CommandGroup[]): Promise<Place[]> {
  const entries = groups.flatMap(({ commands }) => commands)
  const known = await Promise.all(entries.map(async ({ words, load }) => place(words, await load())))
  const first = subcommands(groups)
  const without = first.filter((word) => !known.some(({ at }) => at === word))
  const places = [...without.map((at) => place(at, { options: helpOption })), ...known]
  const all = places.map((one) => ({ ...one, words: [...wordsAfter(one.at, known), ...one.words] }))
  return [place('', { options: programOptions, operands: first }), ...all]
}

function wordsAfter(at: string, known: readonly Place[]): string[] {
  return known.flatMap((one) => (one.at.startsWith(`${at} `) ? [one.at.slice(at.length + 1)] : []))
}

function place(
  at: string,
  { options, outputs, operands: words = [] }: Pick<Command, 'options' | 'outputs' | 'operands'>,
): Place {
  return {
    at,
    words,
    options: Object.entries(options).map(([name, { type, short }]) => ({
      name,
      short,
      takesValue: type === 'string',
      values: name === 'output' ? outputs : undefined,
    })),
  }
}

/** Flags as typed: `--namespace`, `-n`. */
export function flagsOf({ name, short }: PlaceOption): string[] {
  return [`--${name}`, ...(short === undefined ? [] : [`-${short}`])]
}
