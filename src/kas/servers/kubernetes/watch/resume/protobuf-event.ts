import { Reader } from '../../../../../proto/wire/wire.ts'
import type { EventFacts } from './event-facts.ts'

const lengthBytes = 4
const magic = Buffer.from('k8s\0')

/**
 * Reads an event as `readJsonEvent` does, from a frame in protobuf: metav1.WatchEvent{type: 1, object{raw: 1}: 2}.
 * After `k8s\0`, `raw` has a runtime.Unknown{raw: 2} with a resource, whose metadata is field 1 in all kinds.
 */
export function readProtobufEvent(frame: Uint8Array): EventFacts | undefined {
  try {
    return readEvent(frame.subarray(lengthBytes))
  } catch {
    return undefined // it is not in Kubernetes' form
  }
}

function readEvent(bytes: Uint8Array): EventFacts | undefined {
  let type: string | undefined
  let object: Uint8Array | undefined
  const reader = new Reader(bytes)
  while (reader.next()) {
    if (reader.field === 1) type = reader.utf8
    else if (reader.field === 2) object = field(reader.bytes, 1)
  }
  if (type === undefined) return undefined
  const isMarked = object !== undefined && magic.equals(object.subarray(0, magic.length))
  const resource = object && isMarked ? field(object.subarray(magic.length), 2) : undefined
  const metadata = resource && field(resource, 1)
  return { type, ...readMetadata(metadata) }
}

/**
 * Reads ObjectMeta{resourceVersion: 6, annotations: 12}. A list's metadata has other fields, but no event has a list.
 */
function readMetadata(bytes: Uint8Array | undefined): Omit<EventFacts, 'type'> {
  let resourceVersion: string | undefined
  let endsInitialEvents = false
  const reader = new Reader(bytes ?? new Uint8Array(0))
  while (reader.next()) {
    if (reader.field === 6) resourceVersion = reader.utf8
    else if (reader.field === 12) endsInitialEvents ||= isInitialEventsEnd(reader.bytes)
  }
  return { resourceVersion, endsInitialEvents }
}

function isInitialEventsEnd(entry: Uint8Array): boolean {
  const texts = ['', '']
  const reader = new Reader(entry)
  while (reader.next()) if (reader.field === 1 || reader.field === 2) texts[reader.field - 1] = reader.utf8
  return texts[0] === 'k8s.io/initial-events-end' && texts[1] === 'true'
}

/** Returns the field's last value, which is the one that counts. */
function field(bytes: Uint8Array, number: number): Uint8Array | undefined {
  let value: Uint8Array | undefined
  const reader = new Reader(bytes)
  while (reader.next()) if (reader.field === number) value = reader.bytes
  return value
}
