import { KasError } from '../lib/errors.ts'
import { Reader } from './wire/wire.ts'

/**
 * Methods that an agent's tunnel serves (doc/reference/tunnel-protocol.md 1.2). It is decoded by hand, because it is
 * counted before objects are built.
 */
export interface Descriptor {
  readonly services: readonly Service[]
}

interface Service {
  /** full name, without slashes */
  readonly name: string
  readonly methods: readonly { readonly name: string }[]
}

/** Bounds of a descriptor. Agents list about 30 methods, in 2 KiB. */
export const descriptorBounds = {
  /** of the encoded descriptor */
  bytes: 64 * 1024,
  /** services with methods, or without */
  services: 256,
  /** methods of all services together */
  methods: 256,
  /** of one method with its service: the longest that the replicas' table accepts */
  nameBytes: 512,
  /** of all methods together, each with its service */
  namesBytes: 32 * 1024,
} as const

/** @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE; nothing above the bounds is built */
export function decodeDescriptor(bytes: Uint8Array): Descriptor {
  const { bytes: maxBytes, services: maxServices } = descriptorBounds
  if (bytes.length > maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: bytes.length, maxBytes })
  const services: Service[] = []
  const used = { methods: 0, namesBytes: 0 }
  const reader = new Reader(bytes)
  while (reader.next()) {
    if (reader.field !== 1) continue
    if (services.length === maxServices) throw outOfBounds(`more than ${maxServices} services`, maxServices)
    services.push(readService(reader.message, used))
  }
  return { services }
}

/** @param used - sums of the services before; includes this one afterwards */
function readService(reader: Reader, used: { methods: number; namesBytes: number }): Service {
  const { methods: maxMethods, nameBytes: maxNameBytes, namesBytes: maxNamesBytes } = descriptorBounds
  let name: Buffer = Buffer.alloc(0)
  const methods: Buffer[] = []
  while (reader.next()) {
    if (reader.field === 1) name = reader.bytes
    else if (reader.field === 2) {
      if (++used.methods > maxMethods) throw outOfBounds(`more than ${maxMethods} methods`, maxMethods)
      methods.push(readName(reader.message))
    }
  }
  for (const method of methods) {
    const nameBytes = name.length + method.length + '//'.length
    if (nameBytes > maxNameBytes) throw outOfBounds(`a method of ${nameBytes} bytes`, maxNameBytes)
    used.namesBytes += nameBytes
  }
  if (used.namesBytes > maxNamesBytes) throw outOfBounds(`methods of more than ${maxNamesBytes} bytes`, maxNamesBytes)
  // a service without methods may have any name, and is never called
  if (name.length > maxNameBytes) throw outOfBounds(`a service of ${name.length} bytes`, maxNameBytes)
  return { name: name.toString('utf8'), methods: methods.map((method) => ({ name: method.toString('utf8') })) }
}

function readName(reader: Reader): Buffer {
  let name: Buffer = Buffer.alloc(0)
  while (reader.next()) if (reader.field === 1) name = reader.bytes
  return name
}

function outOfBounds(found: string, allowed: number): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `the descriptor names ${found}, allowed: ${allowed}` })
}
