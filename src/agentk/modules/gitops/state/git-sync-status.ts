import { keyName } from '../../../../kubernetes/key.ts'
import { printable, printableLines } from '../../../../lib/printable.ts'
import type { SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import { phaseWord } from '../../../../proto/gitops/source-phase.ts'
import { isParent } from '../manifests/parents.ts'
import { driftLine, driftStatus } from './drift-text.ts'
import { healthCounts, healthLine, healthStatus } from './health-text.ts'
import { type SourceCondition, sinceTransition, type Transition } from './transitions.ts'

/** Returns the `spec` of a GitSync. */
export function gitSyncSpec({ project, name }: SourceState): object {
  return { project, ...(name !== '' && { name }) }
}

/** Status of a GitSync, in the shape of deploy/kubernetes/agentk-gitops/0-gitsync.yaml. */
export interface GitSyncStatus extends Readonly<Record<string, unknown>> {
  readonly conditions: readonly SourceCondition[]
}

/**
 * Returns the status of a GitSync. Its texts steer no terminal, whatever names the objects have.
 *
 * @param before - conditions as they were written last
 */
export function gitSyncStatus(state: SourceState, before: readonly Transition[]): GitSyncStatus {
  const { commit, wanted, counts, problem, plan, trouble, orphan, kept, atMs } = state
  const { $typeName: _, $unknown: __, ...numbers } = counts ?? { $typeName: '', $unknown: [] }
  return {
    commit,
    wanted,
    phase: nameOf(state),
    at: new Date(Number(atMs)).toISOString(),
    counts: numbers,
    problem: printableLines(problem),
    plan,
    planned: plannedLines(state).map(printable),
    kept: kept.map(({ key, text }) => printable(`${key ? keyName(key) : ''}${text && `: ${text}`}`)),
    orphans: orphan.map((key) => printable(keyName(key))),
    trouble: trouble.map(({ key, text, file, line }) => ({
      object: printable(key ? keyName(key) : ''),
      text: printableLines(text),
      file: printable(file),
      line,
    })),
    drifted: state.drifted.map(driftLine),
    ...(state.health && { health: healthCounts(state.health) }),
    unhealthy: state.unhealthy.map(healthLine),
    conditions: sinceTransition([...conditionsOf(state), driftCondition(state)], before),
  }
}

/** Returns a line for each object that a plan deletes; a namespace or a definition with its contents. */
export function plannedLines({ planned, leaving }: Pick<SourceState, 'planned' | 'leaving'>): string[] {
  const texts = new Map(leaving.map(({ key, text }) => [key && isParent(key) ? keyName(key) : '', text]))
  return planned.map((key) => {
    const text = texts.get(keyName(key))
    return text ? `${keyName(key)}: ${text}` : keyName(key)
  })
}

/** Returns the conditions, as kstatus reads them. */
function conditionsOf(state: SourceState): SourceCondition[] {
  const { problem, atMs } = state
  const word = phaseWord(state)
  const is = (...phases: string[]) => (phases.includes(word) ? ('True' as const) : ('False' as const))
  const lastTransitionTime = new Date(Number(atMs)).toISOString()
  const common = { reason: nameOf(state), message: printableLines(problem), lastTransitionTime }
  const ready = word === 'SYNCED' ? healthStatus(state) : undefined
  return [
    { type: 'Ready', status: is('SYNCED'), ...common, ...ready },
    { type: 'Reconciling', status: is('READING', 'APPLYING', 'PRUNING', 'WAITING_FOR_OTHERS', 'REMOVING'), ...common },
    { type: 'Stalled', status: is('REFUSED', 'NOT_READY', 'APPROVAL', 'PAUSED'), ...common },
  ]
}

/** Returns the condition `Drifted`: true while an object differs from Git since it was applied. */
function driftCondition(state: SourceState): SourceCondition {
  const { status, reason, message, sinceMs } = driftStatus(state)
  return { type: 'Drifted', status, reason, message, lastTransitionTime: new Date(sinceMs).toISOString() }
}

/** Returns the phase in the form of a condition's reason: `Synced`, `NotReady`. */
function nameOf(state: SourceState): string {
  const words = phaseWord(state).split('_')
  return words.map((word) => word.slice(0, 1) + word.slice(1).toLowerCase()).join('')
}
