import { parseArgs } from 'node:util'
import type { Clock } from '../../../lib/clock.ts'
import { printable, printableJson } from '../../../lib/printable.ts'
import { type CliIo, UsageError } from '../command.ts'
import { textTable } from '../text-table.ts'
import { endpointOf } from '../views/endpoint.ts'
import { askState, type ShownSource } from './state.ts'

export const gitopsUsage = 'gitops status [--agent ID] [--watch] [-o json]'

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  watch: { type: 'boolean', short: 'w' },
  output: { type: 'string', short: 'o' },
  help: { type: 'boolean', short: 'h' },
} as const

export interface GitopsStatusContext {
  readonly io: CliIo
  readonly clock: Clock
  /** ends `--watch` */
  readonly signal?: AbortSignal
}

/** Between two looks of `--watch`. ms */
const watchMs = 1000

/**
 * `kas gitops status`: how the sources of an agent fare.
 *
 * @param args - after `gitops`
 * @returns the exit code: 1 if a source fails, is refused or waits for approval
 * @throws UsageError, BadAnswer, Error with what kas answered
 */
export async function gitopsStatus(args: readonly string[], context: GitopsStatusContext): Promise<number> {
  const { values, positionals } = parse(args)
  const { io, clock, signal } = context
  if (values.help) {
    io.stdout.write(`usage: kas ${gitopsUsage}\n  how the sources of an agent fare\n`)
    return 0
  }
  if (positionals.join(' ') !== 'status') throw new UsageError('allowed is kas gitops status')
  if (values.output !== undefined && values.output !== 'json') {
    throw new UsageError(`-o ${values.output}: allowed is json`)
  }
  const endpoint = await endpointOf(values, io.env)
  let last = ''
  for (;;) {
    const sources = await askState(endpoint)
    const shown = values.output === 'json' ? `${printableJson({ sources })}\n` : textOf(sources)
    if (shown !== last) io.stdout.write(shown)
    last = shown
    if (!values.watch || signal?.aborted) return sources.some(isTrouble) ? 1 : 0
    await new Promise<void>((resolve) => void clock.after(watchMs, resolve))
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message) // node:util says which option
  }
}

const isTrouble = ({ phase }: ShownSource) => ['FAILING', 'REFUSED', 'APPROVAL'].includes(phase)

function textOf(sources: readonly ShownSource[]): string {
  if (sources.length === 0) return 'the agent has told of no source\n'
  const rows = sources.map((each) => {
    const { objects = 0, applied = 0, unchanged = 0, failed = 0 } = each.counts ?? {}
    const phase = each.stale ? `${each.phase} (stale)` : each.phase
    return [each.source, phase, short(each.commit), short(each.wanted), `${applied + unchanged}/${objects}`, failed]
  })
  const trouble = sources.flatMap(({ source, problem, trouble: objects }) => [
    ...(problem ? [`${source}: ${problem}`] : []),
    ...objects.map(({ key, text, file, line }) => {
      const at = file ? ` (${file}${line ? `:${line}` : ''})` : ''
      const name = key ? `${key.kind} ${key.namespace ? `${key.namespace}/` : ''}${key.name}: ` : ''
      return `${source}: ${name}${text}${at}`
    }),
  ])
  const head = ['SOURCE', 'PHASE', 'COMMIT', 'WANTED', 'APPLIED', 'FAILED']
  return `${textTable([head, ...rows])}${trouble.map((line) => `${printable(line)}\n`).join('')}`
}

const short = (commit: string) => commit.slice(0, 8)
