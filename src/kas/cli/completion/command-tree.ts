import type { ParseArgsConfig } from 'node:util'
import { options as forgetOptions } from '../../modules/gitops/cli/forget.ts'
import { options as gitopsOptions } from '../../modules/gitops/cli/status.ts'
import { viewsCommands } from '../../modules/views/cli/commands.ts'
import { viewsOptions } from '../../modules/views/cli/views-command.ts'
import { options as viewsRoleOptions } from '../../modules/views/cli/views-role.ts'
import { options as agentsOptions } from '../agents.ts'
import { options as checkConfigOptions, outputs as checkConfigOutputs } from '../check-config/check-config.ts'
import { commands, commonOptions } from '../commands.ts'
import { options as doctorOptions, outputs as doctorOutputs } from '../doctor/doctor.ts'
import { options as logOptions } from '../log.ts'
import { programOptions, subcommands } from '../program.ts'
import { options as sessionsOptions } from '../sessions.ts'
import { socketOptions } from '../status-command.ts'
import { statusCommands } from '../status-commands.ts'

type Options = NonNullable<ParseArgsConfig['options']>

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

export const shells = ['bash', 'zsh', 'fish'] as const

const helpOption: Options = { help: { type: 'boolean', short: 'h' } }

/** The tables by which commands read their options, in the order of `kas --help`. */
export function commandTree(): Place[] {
  const known: readonly Place[] = [
    ...Object.entries(commands).map(([at, { options }]) => place(at, { ...options, ...commonOptions })),
    ...Object.entries(statusCommands).map(([at, { options }]) => place(at, { ...options, ...socketOptions })),
    ...Object.entries(viewsCommands).map(([at, { options, outputs }]) =>
      place(at, { ...viewsOptions, ...options }, { outputs }),
    ),
    place('agents', agentsOptions),
    place('log', logOptions),
    place('sessions', sessionsOptions),
    place('sessions end', sessionsOptions),
    place('views role', viewsRoleOptions),
    place('gitops status', gitopsOptions, { outputs: ['json'] }),
    place('gitops forget', forgetOptions),
    place('completion', helpOption, { words: shells }),
    place('check-config', checkConfigOptions, { outputs: checkConfigOutputs }),
    place('doctor', doctorOptions, { outputs: doctorOutputs }),
  ]
  const groups = subcommands.filter((word) => !known.some(({ at }) => at === word)).map((at) => place(at, helpOption))
  const places = [...groups, ...known].map((one) => ({ ...one, words: [...wordsAfter(one.at, known), ...one.words] }))
  return [place('', programOptions, { words: subcommands }), ...places]
}

function wordsAfter(at: string, known: readonly Place[]): string[] {
  return known.flatMap((one) => (one.at.startsWith(`${at} `) ? [one.at.slice(at.length + 1)] : []))
}

function place(
  at: string,
  options: Options,
  { words = [], outputs }: { readonly words?: readonly string[]; readonly outputs?: readonly string[] } = {},
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
