import { createHash } from 'node:crypto'
import { keyText } from '../../../../kubernetes/key.ts'
import { hideWritten, isSecret } from '../manifests/secrets.ts'
import type { EntryState, InventoryEntry } from '../round.ts'

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

function lineOf({ key, version, uid, wave, digest, fields, state, reason }: InventoryEntry): string {
  const { group, kind, namespace, name } = key
  const kept = { group, kind, namespace, name, version, uid, wave, digest, fields, state }
  return JSON.stringify({ ...kept, reason: reason.slice(0, maxReasonLength) })
}

/** @throws Error with the line that is no entry: without its entry an object would be forgotten */
export function shardEntries(text: string): InventoryEntry[] {
  if (text === '') return []
  return text.split('\n').map((line) => {
    const { group, kind, namespace, name, ...rest } = JSON.parse(line) as InventoryEntry & InventoryEntry['key']
    const { version, uid, wave, digest, fields, state, reason } = rest
    const texts = [group, kind, namespace, name, version, uid, digest, fields, reason]
    const isEntry =
      texts.every((value) => typeof value === 'string') && Number.isInteger(wave) && Object.hasOwn(entryStates, state)
    if (!isEntry) throw new Error(`no entry of an inventory: ${line.slice(0, 200)}`)
    const shown = isSecret({ group, kind }) ? hideWritten(reason) : reason
    return { key: { group, kind, namespace, name }, version, uid, wave, digest, fields, state, reason: shown }
  })
}

/** Joins the entries of shards. If two shards have one key, the later revision counts: a division was interrupted. */
export function union(
  shards: Iterable<{ readonly revision: number; readonly text: string }>,
): Map<string, InventoryEntry> {
  const entries = new Map<string, InventoryEntry>()
  const inOrder = [...shards].sort((one, other) => one.revision - other.revision)
  for (const { text } of inOrder) for (const entry of shardEntries(text)) entries.set(keyText(entry.key), entry)
  return entries
}
