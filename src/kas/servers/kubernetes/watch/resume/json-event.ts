import { JsonScanner, type JsonScanPlan } from '../../../../../lib/json-scanner.ts'
import type { EventFacts } from './event-facts.ts'

/** Bytes of an event that are read at most: API servers write metadata first, with up to 256 KiB of annotations. */
const maxReadBytes = 512 * 1024

const bounds = {
  maxDepth: maxReadBytes, // each level has a byte
  maxTextBytes: 1024, // bytes of a name or value that are read at most
}
const usual: JsonScanPlan = {
  ...bounds,
  places: { type: 'type', object: { metadata: { resourceVersion: 'version' } } },
  isEnough: ({ type, version }) => type === 'BOOKMARK' || (type !== undefined && version !== undefined),
}
const bookmark: JsonScanPlan = {
  ...bounds,
  places: {
    type: 'type',
    object: { metadata: { resourceVersion: 'version', annotations: { 'k8s.io/initial-events-end': 'initialEnd' } } },
  },
}

/**
 * Reads the properties of a JSON event, whose object may be a resource, its metadata alone, or a Table. The scan stops
 * at the resourceVersion. Only bookmarks are scanned again, with their annotations.
 *
 * @returns undefined: it is no event, or its type comes too late
 */
export function readJsonEvent(event: Uint8Array): EventFacts | undefined {
  const bytes = event.subarray(0, maxReadBytes)
  let texts = read(usual, bytes)
  if (texts?.type === 'BOOKMARK') texts = read(bookmark, bytes)
  if (texts?.type === undefined) return undefined
  const { type, version, initialEnd } = texts
  return { type, resourceVersion: version, endsInitialEvents: initialEnd === 'true' }
}

/** @returns undefined: it is no event, or a part of one without the texts */
function read(plan: JsonScanPlan, bytes: Uint8Array): JsonScanner['texts'] | undefined {
  const scanner = new JsonScanner(plan)
  scanner.add(bytes)
  return scanner.isDone ? scanner.texts : undefined
}
