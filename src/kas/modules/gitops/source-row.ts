import { toJson } from '@bufbuild/protobuf'
import { decodeMessage } from '../../../proto/decode.ts'
import { type SourceState, SourceStateSchema } from '../../../proto/gen/gitops_states_pb.ts'
import { approveAnnotation } from '../../../proto/gitops/annotations.ts'
import { isSourceReason, phaseWord, type SourceReason } from '../../../proto/gitops/source-phase.ts'
import { noRowLists } from '../../../proto/gitops/state-lists.ts'

/** An agent's last report of one source. */
export interface ReportedFacts {
  /** `kas.agent.v1.SourceState` */
  readonly state: Uint8Array
  readonly ageMs: number
  /** the stream that reported it is open */
  readonly live: boolean
}

/** A row of `GET <prefix>gitops/state`, by its keys in JSON. */
export type SourceRow = Readonly<Record<string, unknown>> & {
  readonly source: string
  readonly project: string
  readonly name: string
  readonly ref: string
  readonly digest: string
  readonly phase: string
  readonly wanted: string
  readonly next: string
}

/** Facts that a row shows by its phase and its next step. */
const inOtherWords: ReadonlySet<string> = new Set(['removed', 'left', 'is_waiting_for_others', 'is_cut'])

/** Next steps for people, by reason. */
const steps: Readonly<Record<SourceReason, string>> = {
  configuration_gone: 'bring the agent’s file back, with gitops',
  configuration_unread: 'mend the agent’s file',
  source_refused: 'mend the agent’s file',
  files_refused: 'mend the repository, or what paths choose of it: the commit before holds',
  ref_not_found: 'push that ref, or name another one in the source’s ref',
  project_not_readable: 'let the agent read the project, or name another one in the source’s id',
  not_served: 'this kas serves no GitOps: update it',
  kas_refused: 'it is asked again by itself',
  over_bound: 'ask for less in the agent’s file, or raise the bound of kas',
}

/**
 * Makes the row of a source.
 *
 * @param hint - returns how to let the agent read a project
 * @returns undefined: the configuration no longer has the source
 * @throws KasError INVALID_MESSAGE
 */
export function sourceRow(
  { state: bytes, ageMs, live }: ReportedFacts,
  hint: (project: string) => string | undefined,
): SourceRow | undefined {
  const state = decodeMessage(SourceStateSchema, bytes)
  if (state.removed) return undefined
  const json = toJson(SourceStateSchema, state, { alwaysEmitImplicit: true, useProtoFieldName: true })
  const facts = Object.entries(json as object).filter(([key]) => !inOtherWords.has(key))
  const { source, project, name, ref, digest, wanted } = state
  const names = { source, project, name, ref, digest, wanted }
  const phase = phaseWord(state)
  const next = nextStep(state, phase, hint)
  const cut = state.isCut && { cut: true }
  return { ...Object.fromEntries(facts), ...names, phase, next, age_ms: ageMs, stale: !live, ...cut }
}

/** Makes a row without the names of objects. @throws as `sourceRow` */
export function shortRow(reported: ReportedFacts): object | undefined {
  const row = sourceRow(reported, () => undefined)
  // a plan that is not shown is not offered for approval
  return (
    row && { ...row, ...noRowLists, problem: '', ...(row.plan !== '' && { next: '' }), digest: undefined, cut: true }
  )
}

function nextStep(
  { source, project, reason, plan, object, isCut }: SourceState,
  phase: string,
  hint: (project: string) => string | undefined,
): string {
  if (isSourceReason(reason)) return (reason === 'project_not_readable' && hint(project)) || steps[reason]
  if (plan !== '') return isCut ? '' : approveCommand(object, plan) // a plan that is not shown is not offered
  if (phase === 'KEPT') return sourceIdForm.test(source) ? `kas gitops forget ${source}` : ''
  return phase === 'REFUSED' ? 'mend it and push: the commit before holds' : ''
}

/** Form of a source's id. An agent may report any text, and people run the command in `next`. */
export const sourceIdForm = /^\d{1,19}-\d{1,19}(?:-[a-z0-9-]{1,63})?$/
/** Form of a plan, for the same reason. */
const planForm = /^[a-z0-9]{1,128}$/

/**
 * `/apis/agent.gitlab.com/v1/namespaces/agentk/gitsyncs/42-7`, or the path of a ConfigMap if that kind is not installed
 */
const objectForm = /\/namespaces\/(?<namespace>[a-z0-9-]+)\/(?<kind>gitsync|configmap)s\/(?<name>[a-z0-9.-]+)$/

/**
 * @param object - path of the object to annotate.
 * @returns empty: it does not exist yet, or a word is unsafe for a shell
 */
function approveCommand(object: string, plan: string): string {
  const { groups } = objectForm.exec(object) ?? {}
  if (!groups || !planForm.test(plan)) return ''
  const { kind, name, namespace } = groups
  return `kubectl annotate --overwrite ${kind} ${name} -n ${namespace} ${approveAnnotation}=${plan}`
}
