import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { Deleter } from '../delete/deleter.ts'
import { beingDeleted } from '../live/deletion.ts'
import type { DryLanes } from '../live/dry-lanes.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import { type ApplyProblem, type ApplyProblemKind, refusal } from '../live/refusal.ts'
import { pruneOf, replaceAnnotation } from '../manifests/annotations.ts'
import { lossOfReplaced, withLoss } from '../manifests/losses.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import { isParent } from '../manifests/parents.ts'
import type { SourceOptions } from '../source-options.ts'
import type { Applier, ApplyOutcome, ApplyRequest } from './applier.ts'

/** Name prefix of the trial object, which the API server does not store. */
const trialName = 'agentk-trial-'
/** Problems that end when the old object is deleted: it uses what the new one needs. */
const usedByOld: ReadonlySet<ApplyProblemKind> = new Set(['taken', 'quota'])

export interface ReplacementComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  readonly dryLanes: Pick<DryLanes, 'laneOf'>
  readonly applier: Pick<Applier, 'apply'>
  readonly deleter: Pick<Deleter, 'remove'>
  /** uids of objects whose deletion is approved */
  readonly approved: ReadonlySet<string>
}

export interface ReplaceRequest extends ApplyRequest {
  /** refusal of the change */
  readonly problem: ApplyProblem
}

/** Result of a trial of the object as a new one. `text`: the reason, for people */
export type Trial =
  | { readonly kind: 'taken' }
  | { readonly kind: 'refused'; readonly text: string }
  /** no dry run was sent, since another server may store it */
  | { readonly kind: 'untried'; readonly text: string }

export type ReplacementOptions = Pick<SourceOptions, 'id' | 'manager' | 'pruneConfirm'>

/** Advice for a namespace or a definition that cannot be changed. */
export const bringAgain =
  'take it out of the source, approve the plan, which lists all that goes with it, and bring it back'

/** True if the manifest allows its object to be deleted and made again. */
export function isReplaceable(object: ObjectTree): boolean {
  return entryAt(object, 'metadata.annotations', replaceAnnotation) === 'allow'
}

/** Decision on an object that only a new one can replace. */
export type ReplacementDecision =
  /** it does not exist any more */
  | { readonly kind: 'gone' }
  | { readonly kind: 'stays'; readonly problem: ApplyProblem }
  /** @param asks - the problem until an approval; undefined: none is needed */
  | { readonly kind: 'goes'; readonly live: LiveObject; readonly asks: ApplyProblem | undefined }

/**
 * Decides whether an object is deleted to be made again. It checks that the API server would take the new object.
 * Without that check it asks for approval.
 *
 * @throws the connection's error, or the signal's reason
 */
export async function decideReplacement(
  { lane, dryLanes }: Pick<ReplacementComponents, 'lane' | 'dryLanes'>,
  request: ReplaceRequest,
  options: ReplacementOptions,
  signal: AbortSignal,
): Promise<ReplacementDecision> {
  const { key, kind, problem } = request
  const reading = { accept: metadataOnly.object, maxBytes: maxEventBytes }
  const path = objectPath(kind, key)
  const answer = await lane.json('GET', path, undefined, signal, reading)
  if (answer.status === 404) return { kind: 'gone' }
  if (answer.status !== 200) return { kind: 'stays', problem: refusal(answer, path) }
  const live = liveObjectOf(answer.body as KubernetesObject, options.manager)
  const kept = keptBecause(live, request, options)
  const trial = kept === undefined ? await tryMaking(request, dryLanes, options, signal) : refused(kept)
  if (trial.kind === 'refused')
    return stays(immutable(`only a new object can have what the commit wants, and it stays: ${trial.text}`))
  // the object itself may be wrong: without a trial nothing shows that a new one would be taken
  if (trial.kind === 'untried' && problem.kind !== 'immutable') return stays(untriedProblem(problem, trial))
  const asks = trial.kind === 'untried' ? `${trial.text}: ${problem.text}` : asksBecause(live, request, options)
  if (asks === undefined) return { kind: 'goes', live, asks: undefined }
  const text = `it is to be deleted and made again, and that waits for approval: ${asks}`
  return { kind: 'goes', live, asks: immutable(withLoss(text, lossOfReplaced(key)), live.uid) }
}

function stays(problem: ApplyProblem): ReplacementDecision {
  return { kind: 'stays', problem }
}

/**
 * Deletes an object that cannot become what a manifest wants, and makes it again, as `decideReplacement` says.
 *
 * @param superseded - ends the wait for the deletion. @throws the connection's error, or the signal's reason
 */
export async function replaceObject(
  { lane, dryLanes, applier, deleter, approved }: ReplacementComponents,
  request: ReplaceRequest,
  options: ReplacementOptions,
  superseded: AbortSignal,
  signal: AbortSignal,
): Promise<ApplyOutcome> {
  const { key, kind, object } = request
  const decision = await decideReplacement({ lane, dryLanes }, request, options, signal)
  if (decision.kind === 'gone') return await applier.apply({ ...request, live: undefined }, signal)
  if (decision.kind === 'stays') return { problem: decision.problem }
  const { live, asks } = decision
  if (asks && !approved.has(live.uid)) return { problem: asks }
  if (superseded.aborted) return { problem: { kind: 'busy', text: 'a newer commit has come' } }
  const survives = await deleter.remove({ key, version: kind.version }, live, superseded, signal)
  if (survives !== undefined) return { problem: { kind: 'busy', text: `it is to be made again: ${survives}` } }
  const made = await applier.apply({ key, kind, object, live: undefined, uid: live.uid }, signal)
  if (!('problem' in made)) return made
  return { problem: { ...made.problem, text: `it was deleted to be made again: ${made.problem.text}` } }
}

/** Returns the reason to keep the object even with an approval. prune/blockers.ts has the rules for pruned objects. */
function keptBecause(live: LiveObject, { key, object }: ApplyRequest, { id }: ReplacementOptions): string | undefined {
  if (live.owner !== id) return 'this source has not made it'
  if (live.isControlled) return 'a controller keeps it'
  if (live.isBeingDeleted) return beingDeleted(live.holds)
  if (isParent(key)) return `what belongs to it would go with it; ${bringAgain}`
  const prunes = [live.prune, pruneOf(object)]
  return prunes.includes('never') ? 'its annotations say never to delete it' : undefined
}

function asksBecause(
  live: LiveObject,
  { key, object }: ApplyRequest,
  { pruneConfirm }: ReplacementOptions,
): string | undefined {
  const prunes = [live.prune, pruneOf(object)]
  if (prunes.includes('confirm')) return 'its annotation asks for it'
  const isOfKind = pruneConfirm.includes(key.kind) && live.prune !== 'allow' // not the commit's annotation
  return isOfKind ? `prune_confirm: ${key.kind}` : undefined
}

/** Returns the problem of a change, with the reason for which it is not known if a new object would be taken. */
export function untriedProblem(problem: ApplyProblem, { text }: Extract<Trial, { kind: 'untried' }>): ApplyProblem {
  return { ...problem, text: `${problem.text}; ${text}` }
}

/**
 * Tries, by a dry run under a generated name, if the API server would take the object as a new one.
 *
 * @throws as `replaceObject`
 */
export async function tryMaking(
  { key, kind, object }: ApplyRequest,
  dryLanes: Pick<DryLanes, 'laneOf'>,
  { manager }: Pick<ReplacementOptions, 'manager'>,
  signal: AbortSignal,
): Promise<Trial> {
  const dry = await dryLanes.laneOf(kind, signal)
  if ('risk' in dry) return { kind: 'untried', text: `a new object was not tried, as ${dry.risk}` }
  const { name: _, ...metadata } = object.metadata as ObjectTree
  const trial = { ...object, metadata: { ...metadata, generateName: trialName } }
  const target = withQuery(collectionPath(kind, key.namespace), { fieldManager: manager })
  const answer = await dry.lane.json('POST', target, trial, signal, { maxBytes: maxEventBytes })
  if (answer.status === 200 || answer.status === 201) return { kind: 'taken' }
  const problem = refusal(answer, target)
  return usedByOld.has(problem.kind) ? { kind: 'taken' } : refused(problem.text)
}

function refused(text: string): Trial {
  return { kind: 'refused', text }
}

function immutable(text: string, replaces?: string): ApplyProblem {
  return { kind: 'immutable', text, ...(replaces !== undefined && { replaces }) }
}
