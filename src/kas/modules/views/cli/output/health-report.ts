import type { Data } from '../../../../command/output.ts'
import type { Judged, Judgement } from '../gate.ts'
import type { Target } from '../manifests.ts'
import { type ShownView, verdictOf } from '../shown-view.ts'
import { kindOf, objectItem, verdictCounts, verdictWord } from './object-item.ts'
import { unreachedView, viewDescription } from './view-description.ts'
import type { HealthReport, JudgedItem, ObjectReference } from './views-output-kinds.ts'

export interface HealthReportParts {
  readonly agentId: string
  readonly exitCode: number
  /** reasons for which not all requested objects are judged */
  readonly problems: readonly string[]
  /** in ms since 1970, by the agent's clock */
  readonly now: number
  /** reason for which there is no answer */
  readonly reason: string
  /** undefined: there is no answer */
  readonly model: ShownView | undefined
  /** undefined: there is no whole answer */
  readonly judgement: Judgement | undefined
}

/** Makes the result of `kas health` for programs. */
export function healthReport(parts: HealthReportParts): Data<HealthReport> {
  return { kind: 'HealthReport', fields: fieldsOf(parts), table: () => '' }
}

function fieldsOf(parts: HealthReportParts): Data<HealthReport>['fields'] {
  const { agentId, exitCode, problems, now, reason, model, judgement } = parts
  const description = model ? viewDescription(model, { agentId, problems }) : unreachedView(agentId, reason)
  if (!judgement) return { ...description, exitCode, counts: {}, items: [], absent: [], notJudged: [] }
  const { word, counts, absent, notFollowed, aside } = judgement
  const isWhole = problems.length + absent.length + aside.length === 0
  const isKnown = isWhole && description.state === 'live'
  return {
    ...description,
    exitCode,
    verdict: isKnown ? verdictWord(word) : undefined,
    counts: verdictCounts(counts),
    items: judgement.judged.map((one) => judgedItem(one, now)),
    absent: absent.map(reference),
    notJudged: notFollowed.map(reference),
    undecidedBy: aside.length > 0 ? aside.map(([kind]) => kind) : undefined,
  }
}

function judgedItem({ row, word }: Judged, now: number): JudgedItem {
  return { ...objectItem(row, now), judgedAs: word === verdictOf(row) ? undefined : verdictWord(word) }
}

function reference({ kind, namespace, name, uid }: Target): ObjectReference {
  return { ...kindOf(kind), namespace, name, uid }
}
