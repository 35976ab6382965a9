import { printable } from '../../../../lib/printable.ts'
import { type CommandContext, UsageError } from '../../../command/command.ts'
import type { Endpoint } from '../../../command/endpoint.ts'
import { dataText, type Printing } from '../../../command/output.ts'
import type { GateQuestion } from './gate.ts'
import { runGate } from './gate-run.ts'
import { sourceListData } from './print-sources.ts'
import type { ShownState } from './state.ts'

/** Exit code for an agent that reports no status. */
export const noStatusCode = 3

export interface StatusGate extends GateQuestion {
  readonly waitMs: number | undefined
  /** true if the exit codes are those of a gate */
  readonly hasCodes: boolean
}

/** @throws UsageError */
export function checkCommit(commit: string | undefined): void {
  if (commit === undefined || /^[0-9a-f]{7,64}$/.test(commit)) return
  throw new UsageError(`--commit ${commit}: allowed is the id of a commit, of 7 hexadecimal digits or more`)
}

/** Judges, prints the sources and the reason. @returns the exit code: 0 only after a poll that began after the question */
export async function judged(
  endpoint: Endpoint,
  { waitMs, hasCodes, ...question }: StatusGate,
  { io, clock, signal = new AbortController().signal }: Pick<CommandContext, 'io' | 'clock'> & { signal?: AbortSignal },
  { output, hasHeaders }: Printing,
): Promise<number> {
  const { verdict, state, isReported, ms } = await runGate(endpoint, question, { waitMs, signal })
  const exitCode = hasCodes ? verdict.code : freshCode(verdict.code, state)
  const shown = { agentId: endpoint.agentId, at: clock.now(), exitCode }
  io.stdout.write(await dataText(sourceListData(state, shown, verdict.reason), output, hasHeaders))
  const reason = isReported ? `the status is still not known after ${Math.round(ms / 1000)} s` : verdict.reason
  if (reason !== '') io.stderr.write(printable(`kas gitops: ${reason}`).concat('\n'))
  return exitCode
}

/** Returns the exit code of `--fresh` alone, which is that of a question without a gate. */
function freshCode(code: number, state: ShownState | undefined): number {
  if (state?.agent === 'stock') return noStatusCode
  return code === 0 ? 0 : 1
}
