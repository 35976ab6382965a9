import { create } from '@bufbuild/protobuf'
import { type Key, KeySchema } from '../../../../proto/gen/gitops_states_pb.ts'
import type { InventoryEntry } from '../round.ts'

/** Limit of a name: an API server takes longer ones for some kinds. */
const maxNameLength = 300

/** Returns the key of an object in a state. */
export function keyOf({ key, version }: Pick<InventoryEntry, 'key' | 'version'>): Key {
  return create(KeySchema, { ...key, name: key.name.slice(0, maxNameLength), version })
}
