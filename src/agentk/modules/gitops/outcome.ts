import { keyName, keyText } from '../../../kubernetes/key.ts'
import { replacementPlan } from './apply/apply-commit.ts'
import { lossOf, withLoss } from './manifests/losses.ts'
import type { Dependents, NotListed } from './prune/dependents.ts'
import type { PruneDecision } from './prune/prune-plan.ts'
import type { AppliedCommit, FullPlan } from './prune/prune-stage.ts'
import type { Build, InventoryEntry, LastGood, Reason, RoundDone, RoundEnd, SourceClaims } from './round.ts'
import type { SourceOptions } from './source-options.ts'

export function lastGoodOf(commit: string, all: Iterable<InventoryEntry>): LastGood {
  const made = [...all].filter(({ uid, state }) => uid !== '' && state !== 'detached')
  return { commit, objects: made.length, applied: made.filter(({ state }) => state === 'applied').length }
}

/** True if the commit's manifest of the object was applied, now or earlier; others may have changed it since. */
export function isApplied({ end }: RoundEnd): boolean {
  return end.kind === 'applied' || end.kind === 'unchanged' || end.kind === 'drifted'
}

export function isAllApplied(ends: readonly RoundEnd[]): boolean {
  return ends.every(isApplied)
}

/** True if nothing has to be tried again. An approval is reported when it comes, so nothing polls for it. */
export function needsNoRetry({ entries, isWaitingForOthers }: RoundDone): boolean {
  return !isWaitingForOthers && [...entries.values()].every(({ state }) => state !== 'failed')
}

/** True if a ConfigMap or a Secret stays until a rollout is over. No event reports that, so the round is repeated. */
export function waitsForRollout({ reasons }: RoundDone): boolean {
  return [...reasons.values()].some(({ code }) => code === 'rolloutRuns')
}

/** Summarizes a round: its results, and what it leaves. @param kinds - with those that the commit has defined */
export function roundDone(
  { commit, build, inventory: { entries }, live: { orphans }, ends, notes: noted }: AppliedCommit,
  { decisions, digest, isWaitingForOthers, dependents, notes: planned }: FullPlan,
  { pruned, kinds }: Pick<RoundDone, 'pruned' | 'kinds'>,
  { id }: SourceOptions,
  claims: SourceClaims,
): RoundDone {
  const awaitingApproval = [...entries].flatMap(([text, entry]) =>
    decisions.get(text)?.kind === 'confirm' && entry.state === 'waits' ? [entry] : [],
  )
  const replaced = replacementPlan(ends, { id, commit }) // after a failure nothing is pruned: one plan at a time
  const planDigest = awaitingApproval.length > 0 ? digest : replaced.digest
  for (const { manifest } of replaced.ends) awaitingApproval.push(entries.get(keyText(manifest.key)) as InventoryEntry)
  const reasons = new Map(
    [...decisions].map(([text, decision]) => {
      const key = entries.get(text)?.key
      return [text, reasonOf(decision, dependents?.get(text), key ? lossOf(key) : '')]
    }),
  )
  const notes = [...build.notes, ...noted, ...planned, ...wantedTwice(build, claims)]
  const made = { ends, entries, pruned, orphans, kinds }
  return { kind: 'done', ...made, planDigest, awaitingApproval, reasons, isWaitingForOthers, notes }
}

/** Limit of notes about objects that two sources want. */
const maxTwice = 10

function wantedTwice({ manifests }: Build, claims: SourceClaims): string[] {
  const twice = manifests.flatMap(({ key }) => {
    const other = claims.newOwner(key)
    return other === undefined ? [] : [`source ${other} wants ${keyName(key)} as well: take it out of one of them`]
  })
  const more = twice.length - maxTwice
  return more > 0 ? [...twice.slice(0, maxTwice), `and ${more} more that others want as well`] : twice
}

function reasonOf(decision: PruneDecision, dependents: Dependents | NotListed | undefined, loss: string): Reason {
  if (decision.kind === 'blocked') return decision.blocked
  if (decision.kind !== 'confirm') return { code: '', text: '' }
  const { code, text } = decision.reason
  const others = dependents && 'text' in dependents ? dependents.text : ''
  return { code, text: withLoss(others === '' ? text : `${text}; with it go ${others}`, loss) }
}
