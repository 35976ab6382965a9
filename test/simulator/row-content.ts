import { isDeepStrictEqual } from 'node:util'
import { isConnection, type Row, type RowItem, type RowSnapshot } from '../../src/membership/table/row.ts'

/** A row at one moment, as a reader has it. */
type Read = Pick<Row, 'head' | 'connections' | 'registrations'>

/** Returns true if a reader has the owner's row; written for speed, since rows are large, and compared often. */
export function isAsWritten(written: RowSnapshot, { head, connections, registrations }: Read): boolean {
  return (
    isDeepStrictEqual(written.head, head) &&
    areSame(written.connections, connections) &&
    areSame(written.registrations, registrations)
  )
}

function areSame(written: readonly RowItem[], read: ReadonlyMap<string, RowItem>): boolean {
  return written.length === read.size && written.every((item) => isDeepStrictEqual(item, read.get(item.id)))
}

/** Returns all public content of a row, as text. */
export function contentOf({ head, connections, registrations }: Read): string {
  return `${headText(head)} ${[...connections.values(), ...registrations.values()].map(itemText).sort().join(' ')}`
}

function headText({ name, state, replicaPort, gossipPort, publicKeyHash }: Row['head']): string {
  return `${name} ${state} ${replicaPort} ${gossipPort} ${publicKeyHash}`
}

function itemText(item: RowItem): string {
  const { id, agentId } = item
  return isConnection(item)
    ? `${id}=${agentId}/${item.pod}/${item.role}/${item.methods.join('+')}`
    : `${id}=${agentId}/${item.renewed}`
}
