import type { ConnectionEntry, Row, RowSnapshot } from '../../src/membership/table/row.ts'

/** A row at one moment, as a reader has it. */
type Read = Pick<Row, 'head' | 'connections'>

/** Whether a reader has what the owner told: a row is large, and looked at often. */
export function isAsTold(told: RowSnapshot, { head, connections }: Read): boolean {
  if (told.connections.length !== connections.size || !isSameHead(told.head, head)) return false
  for (const entry of told.connections) {
    const other = connections.get(entry.id)
    if (other !== entry && !(other && isSameEntry(entry, other))) return false
  }
  return true
}

function isSameHead(one: Row['head'], other: Row['head']): boolean {
  return one === other || headText(one) === headText(other)
}

function isSameEntry(one: ConnectionEntry, other: ConnectionEntry): boolean {
  return (
    one.id === other.id &&
    one.agentId === other.agentId &&
    one.pod === other.pod &&
    one.role === other.role &&
    one.methods.length === other.methods.length &&
    one.methods.every((method, i) => method === other.methods[i])
  )
}

/** All of a row that others may see, as text. */
export function contentOf(head: Row['head'], connections: Iterable<ConnectionEntry>): string {
  return `${headText(head)} ${Array.from(connections, entryText).sort().join(' ')}`
}

function headText({ name, state, replicaPort, gossipPort, publicKeyHash }: Row['head']): string {
  return `${name} ${state} ${replicaPort} ${gossipPort} ${publicKeyHash}`
}

function entryText({ id, agentId, pod, role, methods }: ConnectionEntry): string {
  return `${id}=${agentId}/${pod}/${role}/${methods.join('+')}`
}
