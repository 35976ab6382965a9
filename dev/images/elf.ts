/** The parts of the format of programs and libraries (ELF, 64 bit, little-endian) that making images needs. */

const sectionKinds = { symbols: 2, dynamic: 6, empty: 8 }
const allocated = 2n
const neededTag = 1n
const debugPrefix = '.debug_'
const dynamicEntryBytes = 16
const headerAt = { sectionsOffset: 0x28, sectionBytes: 0x3a, sectionCount: 0x3c, namesIndex: 0x3e }

interface Section {
  readonly head: Buffer
  readonly kind: number
  readonly isAllocated: boolean
  readonly offset: number
  readonly size: number
  readonly link: number
}

export function isElf(bytes: Buffer): boolean {
  return bytes.subarray(0, 6).equals(Buffer.from('\x7fELF\x02\x01', 'latin1'))
}

function sectionsOf(bytes: Buffer): Section[] {
  const offset = Number(bytes.readBigUInt64LE(headerAt.sectionsOffset))
  const size = bytes.readUInt16LE(headerAt.sectionBytes)
  return Array.from({ length: bytes.readUInt16LE(headerAt.sectionCount) }, (_, i) => {
    const head = Buffer.from(bytes.subarray(offset + i * size, offset + (i + 1) * size))
    return {
      head,
      kind: head.readUInt32LE(4),
      isAllocated: (head.readBigUInt64LE(8) & allocated) !== 0n,
      offset: Number(head.readBigUInt64LE(24)),
      size: Number(head.readBigUInt64LE(32)),
      link: head.readUInt32LE(40),
    }
  })
}

/** Returns the names of the libraries with which it is linked. */
export function neededBy(bytes: Buffer): string[] {
  const sections = sectionsOf(bytes)
  const dynamic = sections.find(({ kind }) => kind === sectionKinds.dynamic)
  const names = dynamic && sections[dynamic.link]
  if (!dynamic || !names) return []
  const needed: string[] = []
  for (let at = dynamic.offset; at < dynamic.offset + dynamic.size; at += dynamicEntryBytes) {
    if (bytes.readBigInt64LE(at) !== neededTag) continue
    const start = names.offset + Number(bytes.readBigUInt64LE(at + 8))
    needed.push(bytes.toString('latin1', start, bytes.indexOf(0, start)))
  }
  return needed
}

/**
 * Removes symbols and tables that only debuggers read, as `strip` does, for any processor. Loaded sections stay at
 * their place; the sections after them move up.
 */
export function withoutSymbols(bytes: Buffer): Buffer {
  const sections = sectionsOf(bytes)
  const names = sections[bytes.readUInt16LE(headerAt.namesIndex)]
  const isDebug = ({ head, isAllocated }: Section) => {
    const at = (names?.offset ?? 0) + head.readUInt32LE(0)
    return !isAllocated && bytes.toString('latin1', at, at + debugPrefix.length) === debugPrefix
  }
  const dropped = new Set(sections.flatMap((one, index) => (isDebug(one) ? [index] : [])))
  const symbols = sections.findIndex(({ kind }) => kind === sectionKinds.symbols)
  if (symbols >= 0) dropped.add(symbols).add(sections[symbols]?.link ?? symbols)
  if (dropped.size === 0) return bytes
  const kept = sections.flatMap((section, index) => (dropped.has(index) ? [] : [{ ...section, index }]))
  const loaded = kept.filter(({ isAllocated, kind }) => isAllocated && kind !== sectionKinds.empty)
  const end = Math.max(...loaded.map(({ offset, size }) => offset + size))
  const newIndex = new Map(kept.map(({ index }, i) => [index, i]))
  if (loaded.some(({ index }) => newIndex.get(index) !== index)) return bytes // dynamic symbols name sections by number
  const parts: Buffer[] = [Buffer.from(bytes.subarray(0, end))]
  let length = end
  const append = (part: Buffer, alignment: number) => {
    const gap = -length & (alignment - 1)
    parts.push(Buffer.alloc(gap), part)
    length += gap + part.length
    return length - part.length
  }
  for (const { head, isAllocated, kind, offset, size, link } of kept) {
    head.writeUInt32LE(newIndex.get(link) ?? 0, 40)
    if (isAllocated || kind === 0 || kind === sectionKinds.empty) continue
    const alignment = Math.max(Number(head.readBigUInt64LE(48)), 1)
    head.writeBigUInt64LE(BigInt(append(bytes.subarray(offset, offset + size), alignment)), 24)
  }
  const table = append(Buffer.concat(kept.map(({ head }) => head)), 8)
  const [start] = parts as [Buffer]
  start.writeBigUInt64LE(BigInt(table), headerAt.sectionsOffset)
  start.writeUInt16LE(kept.length, headerAt.sectionCount)
  start.writeUInt16LE(newIndex.get(start.readUInt16LE(headerAt.namesIndex)) ?? 0, headerAt.namesIndex)
  return Buffer.concat(parts)
}
