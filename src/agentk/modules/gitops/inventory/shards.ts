import { createHash } from 'node:crypto'
import { keyText } from '../../../../kubernetes/key.ts'
import { numberAt, textAt } from '../../../../kubernetes/object.ts'
import { isPathSegment } from '../../../../lib/path-segment.ts'
import { hideWritten, isSecret } from '../manifests/secrets.ts'
import type { EntryState, InventoryEntry, LeftOut, RecordedDrift } from '../round.ts'
import { maxCorrections } from './corrections.ts'

const entryStates: Readonly<Record<EntryState, true>> = {
  planned: true,
  applied: true,
  failed: true,
  waits: true,
  detached: true,
}

/** Limit of entries in a shard. A larger one is divided by the keys' hashes, and merged again below half of it. */
export const maxShardEntries = 1500
/** Limit of a shard's text: a ConfigMap has up to 1 MiB. */
export const maxShardBytes = 900 * 1024
/** Limit of an entry's `reason`; a longer one is cut. Characters */
export const maxReasonLength = 300

/** Limit of values left out that an entry keeps. */
export const maxKeptLeftOut = 3
/** Limit of each text about such a value; a longer one is cut. Characters */
const maxLeftOutLength = 200

/** Name of the undivided shard; the others are named by the first digits of hashes: `a`, `a0`. */
export const undivided = 'all'

/**
 * Divides entries among shards, each as the text to keep.
 *
 * @param known - existing shards: a divided one stays divided until it is small
 */
export function shardsOf(entries: Iterable<InventoryEntry>, known: Iterable<string> = []): Map<string, string> {
  const lines = Array.from(entries, (entry) => ({ hash: hashOf(keyText(entry.key)), line: lineOf(entry) }))
  lines.sort((one, other) => (one.hash < other.hash ? -1 : 1))
  const shards = new Map<string, string>()
  divide(
    lines,
    '',
    [...known].map((name) => (name === undivided ? '' : name)),
    shards,
  )
  return shards
}

interface Line {
  readonly hash: string
  readonly line: string
}

function divide(lines: readonly Line[], prefix: string, known: readonly string[], shards: Map<string, string>): void {
  const bytes = lines.reduce((sum, { line }) => sum + Buffer.byteLength(line) + 1, 0)
  const isDivided = known.some((name) => name.length > prefix.length && name.startsWith(prefix))
  const share = isDivided ? 0.5 : 1
  if (lines.length <= maxShardEntries * share && bytes <= maxShardBytes * share) {
    shards.set(prefix || undivided, lines.map(({ line }) => line).join('\n'))
    return
  }
  for (const digit of '0123456789abcdef') {
    const below = prefix + digit
    divide(
      lines.filter(({ hash }) => hash.startsWith(below)),
      below,
      known,
      shards,
    )
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function lineOf(entry: InventoryEntry): string {
  const { key, version, uid, wave, digest, fields, time, generation, drift, state, reason } = entry
  const { ignored, leftOut, runsOnce } = entry
  const { group, kind, namespace, name } = key
  const left = { ignored, leftOut: leftOut?.slice(0, maxKeptLeftOut).map(shortened) }
  const reference = { version, uid, wave, digest, fields, time, generation }
  const kept = { group, kind, namespace, name, ...reference, drift, ...left, runsOnce, state }
  return JSON.stringify({ ...kept, reason: reason.slice(0, maxReasonLength) })
}

function shortened({ path, manager, rule }: LeftOut): LeftOut {
  const cut = (text: string) => text.slice(0, maxLeftOutLength)
  return { path: cut(path), manager: cut(manager), rule: cut(rule) }
}

/**
 * @param shard - for the error
 * @throws Error with the line that is no entry: without its entry an object would be forgotten
 */
export function shardEntries(text: string, shard = 'a shard'): InventoryEntry[] {
  if (text === '') return []
  return text.split('\n').map((line, index) => {
    const { group, kind, namespace, name, ...rest } = parsed(line)
    const { version, uid, wave, digest, fields, time, generation, drift, state, reason } = rest
    const texts = [group, kind, namespace, name, version, uid, digest, fields, reason]
    const isEntry =
      texts.every((value) => typeof value === 'string') && Number.isInteger(wave) && Object.hasOwn(entryStates, state)
    // a path without a name is that of all objects of the kind
    if (!isEntry || kind === '' || name === '' || ![namespace, name].every(isPathSegment)) {
      throw new Error(`${shard}: line ${index + 1} is no entry of an inventory: ${line.slice(0, 200)}`)
    }
    const reference = { ...(typeof time === 'string' && { time }), ...(Number.isInteger(generation) && { generation }) }
    const seen = driftOf(drift)
    const once = rest.runsOnce === true && { runsOnce: true as const }
    const more = { ...reference, ...(seen && { drift: seen }), ...leftOf(rest), ...once }
    const shown = isSecret({ group, kind }) ? hideWritten(reason) : reason
    const key = { group, kind, namespace, name }
    return { key, version, uid, wave, digest, fields, ...more, state, reason: shown }
  })
}

/** @returns an empty object: the line is no JSON, or no object */
function parsed(line: string): InventoryEntry & InventoryEntry['key'] {
  try {
    return JSON.parse(line) ?? {}
  } catch {
    return {} as never // it has none of the fields
  }
}

/** Reads what is recorded of an object's drift. Another form counts as no record, which delays a correction. */
function driftOf(value: unknown): RecordedDrift | undefined {
  const [since, by] = [numberAt(value, 'since'), textAt(value, 'by')]
  if (!isTime(since)) return undefined
  const { corrections, isDeleted } = value as { corrections?: unknown; isDeleted?: unknown }
  const times = Array.isArray(corrections) ? corrections.filter(isTime).slice(-maxCorrections) : []
  return { since, ...(isDeleted === true && { isDeleted }), ...(by !== '' && { by, corrections: times }) }
}

/** True for whole ms since 1970. A person may have edited the inventory, and other numbers cannot be sent to kas. */
function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** Returns the fields about values left out, if they have their form. Without them, the live object is the reference. */
function leftOf({ ignored, leftOut }: Partial<InventoryEntry>): Pick<InventoryEntry, 'ignored' | 'leftOut'> {
  const isText = (value: unknown) => typeof value === 'string'
  const isLeftOut = (one: LeftOut | null) => [one?.path, one?.manager, one?.rule].every(isText)
  return {
    ...(ignored !== undefined && isText(ignored) && { ignored }),
    ...(Array.isArray(leftOut) && leftOut.every(isLeftOut) && { leftOut }),
  }
}

/** Joins the entries of shards. If two shards have one key, the later revision counts: a division was interrupted. */
export function union(
  shards: Iterable<{ readonly revision: number; readonly text: string; readonly name?: string }>,
): Map<string, InventoryEntry> {
  const entries = new Map<string, InventoryEntry>()
  const inOrder = [...shards].sort((one, other) => one.revision - other.revision)
  for (const { text, name } of inOrder) {
    const shard = name && `ConfigMap ${name}`
    for (const entry of shardEntries(text, shard)) entries.set(keyText(entry.key), entry)
  }
  return entries
}
