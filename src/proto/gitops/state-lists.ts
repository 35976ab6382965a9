import { SourceStateSchema } from '../gen/gitops_states_pb.ts'

/** All lists of a state. Names of objects, and their values, stand in lists alone. */
export const stateLists = SourceStateSchema.fields.filter(({ fieldKind }) => fieldKind === 'list')

/** A state’s lists, each of them empty. */
export const noLists = Object.fromEntries(stateLists.map(({ localName }) => [localName, []]))

/** The same, as a row has them. */
export const noRowLists = Object.fromEntries(stateLists.map(({ name }) => [name, []]))
