import type { Command, CommandGroup } from '../../command/command.ts'
import { programOptions, subcommands } from '../program.ts'

/** What may follow some words. */
export interface Place {
  /** after `kas`, with spaces between; empty: nothing yet */
  readonly at: string
  readonly words: readonly string[]
  readonly options: readonly PlaceOption[]
}

export interface PlaceOption {
  readonly name: string
  readonly short?: string | undefined
  readonly takesValue: boolean
  /** all that the value may be, where that is known */
  readonly values?: readonly string[] | undefined
}

const helpOption = { help: { type: 'boolean', short: 'h' } } as const

/** The tables by which commands read their options, in the order of `kas --help`. */
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

/** As it is typed: `--namespace`, `-n`. */
export function flagsOf({ name, short }: PlaceOption): string[] {
  return [`--${name}`, ...(short === undefined ? [] : [`-${short}`])]
}
