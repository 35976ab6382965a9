import type { PreviewEnd, PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'

/** Actions in the order in which they are shown, with their titles: problems first. */
const titles: ReadonlyMap<string, string> = new Map([
  ['fails', 'fails'],
  ['deleted', 'deleted'],
  ['waits', 'waits for approval to be deleted'],
  ['recreated', 'deleted and created again'],
  ['created', 'created'],
  ['changed', 'changed'],
  ['adopted', 'taken over'],
  ['stays', 'leaves Git and stays in the cluster'],
  ['drifted', 'changed in the cluster, and not by this change'],
])

/** Objects with one action. */
export interface PreviewedGroup {
  readonly title: string
  readonly objects: readonly PreviewedObject[]
}

/** Returns the objects by action, without empty groups. Actions that only a newer agentk knows come last. */
export function previewedGroups(objects: readonly PreviewedObject[]): readonly PreviewedGroup[] {
  const groups = new Map<string, PreviewedObject[]>([...titles.keys()].map((action) => [action, []]))
  for (const object of objects) {
    const group = groups.get(object.action)
    if (group) group.push(object)
    else groups.set(object.action, [object])
  }
  return [...groups].flatMap(([action, own]) => {
    return own.length > 0 ? [{ title: titles.get(action) ?? action, objects: own }] : []
  })
}

/** Returns `Deployment shop/web`. */
export function objectText({ key }: Pick<PreviewedObject, 'key'>): string {
  return key ? `${key.kind} ${key.namespace === '' ? '' : `${key.namespace}/`}${key.name}` : 'an object'
}

/** Returns `deploy/web.yaml:12`; empty: the object leaves. */
export function placeText({ file, line }: { readonly file: string; readonly line: number }): string {
  return line === 0 ? file : `${file}:${line}`
}

/** Returns the texts about an object beside its fields: the reason of its action, and what is deleted with it. */
export function remarks(object: PreviewedObject): readonly string[] {
  const { action, text, unverified, alsoDeleted, moreAlsoDeleted: more, alsoDeletedText } = object
  const reason = unverified ? [text === '' ? 'not verified' : `not verified: ${text}`] : text === '' ? [] : [text]
  const noReason =
    action === 'fails' && text === '' ? ['the reason is hidden: --values (over HTTP values=true) shows it'] : []
  const others = more > 0 ? [`${more} more`] : []
  const deleted = [...alsoDeleted, ...others]
  return [
    ...reason,
    ...noReason,
    ...(deleted.length > 0 ? [`also deleted: ${deleted.join(', ')}`] : []),
    ...(alsoDeletedText === '' ? [] : [alsoDeletedText]),
  ]
}

/**
 * Returns with what a preview compares.
 *
 * @param shown - returns the id of a commit as the format shows it
 */
export function comparedText({ commit, refusal, problem }: PreviewEnd, shown: (commit: string) => string): string {
  if (commit !== '') return `compared with commit ${shown(commit)}`
  return refusal || problem !== '' ? 'not compared' : 'no commit of it has been applied yet'
}

/** Returns the sentences about the whole: the last one says how much was compared. */
export function endSentences(end: PreviewEnd): readonly string[] {
  const { objects, notCompared, unverified, cut, problem, refusal } = end
  const counts = countTexts(end)
  const compared = `${objects - notCompared} of ${manifests(objects)} compared`
  const isWhole = notCompared === 0 && problem === '' && !refusal
  const nothing = isWhole ? `Nothing would change: ${compared}.` : `No change is known: ${compared}.`
  return [
    ...(unverified > 0 ? [`${unverified} of these ${isOrAre(unverified)} not verified.`] : []),
    ...(cut > 0 ? [`${cut} of these ${isOrAre(cut)} not listed: there was no room.`] : []),
    ...(notCompared > 0 ? [`Not compared: ${notCompared} of your manifests: you may not read them.`] : []),
    ...(counts.length > 0 ? [`${counts.join(', ')}; ${compared}.`] : refusal ? [] : [nothing]),
  ]
}

/** Returns the sentences about problems of the whole. */
export function problemSentences({ refusal, problem }: PreviewEnd): readonly string[] {
  const place = refusal && placeText(refusal)
  return [
    ...(refusal ? [`The commit would be refused: ${place ? `${place}: ` : ''}${refusal.text}`] : []),
    ...(problem === '' ? [] : [`Not all could be compared: ${problem}`]),
  ]
}

function countTexts(end: PreviewEnd): readonly string[] {
  const { failing, created, changed, adopted, recreated, deleted, waiting, staying, drifted } = end
  const numbers: readonly (readonly [number, string])[] = [
    [failing, failing === 1 ? 'fails' : 'fail'],
    [created, 'created'],
    [changed, 'changed'],
    [adopted, 'taken over'],
    [recreated, 'created again'],
    [deleted, 'deleted'],
    [waiting, waiting === 1 ? 'waits for approval' : 'wait for approval'],
    [staying, staying === 1 ? 'stays' : 'stay'],
    [drifted, 'drifted'],
  ]
  return numbers.flatMap(([number, word]) => (number > 0 ? [`${number} ${word}`] : []))
}

function manifests(count: number): string {
  return `${count} manifest${count === 1 ? '' : 's'}`
}

function isOrAre(count: number): string {
  return count === 1 ? 'is' : 'are'
}
