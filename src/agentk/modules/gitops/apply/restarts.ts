import { isDeepStrictEqual } from 'node:util'
import { field, textField } from '../../../../kubernetes/object.ts'
import { rfc3339Time } from '../../../../kubernetes/time.ts'
import type { ManagedPath } from '../live/managed-path.ts'
import type { ObjectTree } from '../manifests/manifest.ts'

/**
 * Annotations with the time of a restart. `kubectl rollout restart` and other tools write them into a Pod template, and
 * people commit what they have exported. Each change restarts all Pods, also one to an earlier time.
 */

/** `kubectl.kubernetes.io/restartedAt`, and the annotations of other tools that end so */
const restartName = /(?:^|\/)restartedAt$/

/** True if annotations at any place in the object have the time of a restart. */
export function hasRestartTime(object: unknown): boolean {
  if (typeof object !== 'object' || object === null) return false
  const annotations = Object.keys(field(object, 'annotations') ?? {})
  return annotations.some((name) => restartName.test(name)) || Object.values(object).some(hasRestartTime)
}

/**
 * Returns Git's object, with the live time of a restart at each place where that is not earlier. A time that is not in
 * the format of RFC 3339 stays as Git has it. Items of lists are the same if their names are.
 */
export function keepLaterRestarts(object: ObjectTree, live: unknown): ObjectTree {
  const entries = Object.entries(object).map(([name, value]) => {
    const found = field(live, name)
    const isAnnotations = name === 'annotations' && isTree(value)
    return [name, isAnnotations ? keepLaterIn(value, found) : keepLater(value, found)] as const
  })
  return Object.fromEntries(entries)
}

/**
 * True if a field differs from Git only by times of restarts that are not earlier than Git's: an apply leaves these.
 *
 * @param difference.before - Git's value
 * @param difference.after - live value
 */
export function isLaterRestart({
  path,
  before,
  after,
}: {
  readonly path: ManagedPath
  readonly before: unknown
  readonly after: unknown
}): boolean {
  const around = (value: unknown) =>
    path.slice(-2).reduceRight((inner, element) => ({ [element.slice(2)]: inner }), value) as ObjectTree
  return path.length > 0 && isDeepStrictEqual(keepLaterRestarts(around(before), around(after)), around(after))
}

function keepLater(value: unknown, live: unknown): unknown {
  if (Array.isArray(value)) return keepLaterItems(value, Array.isArray(live) ? live : [])
  return isTree(value) ? keepLaterRestarts(value, live) : value
}

function keepLaterIn(annotations: ObjectTree, live: unknown): ObjectTree {
  const entries = Object.entries(annotations).map(([name, value]) => {
    return [name, restartName.test(name) ? laterTime(value, field(live, name)) : value] as const
  })
  return Object.fromEntries(entries)
}

/** Returns the live text of an equal time, which may be written in another zone: a change would restart Pods. */
function laterTime(wanted: unknown, live: unknown): unknown {
  const [wantedAt, liveAt] = [rfc3339Time(wanted), rfc3339Time(live)]
  return wantedAt !== undefined && liveAt !== undefined && liveAt >= wantedAt ? live : wanted
}

function keepLaterItems(items: readonly unknown[], live: readonly unknown[]): unknown[] {
  // the first of several with one name
  const byName = new Map(live.toReversed().map((one) => [textField(one, 'name'), one]))
  return items.map((item) => {
    const name = textField(item, 'name')
    return keepLater(item, name === '' ? undefined : byName.get(name))
  })
}

function isTree(value: unknown): value is ObjectTree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
