import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { parseApiVersion } from '../../../../kubernetes/kind.ts'
import { listAt, textAt, textField } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import type { ApplyProblem } from '../live/refusal.ts'
import type { ObjectTree } from '../manifests/manifest.ts'

/** Limit of owners that are read for one object. */
const maxOwners = 10

const whatFollows = 'the garbage collector would delete it: correct metadata.ownerReferences, or take them out'

/**
 * Checks the owners of an object: the cluster deletes an object with a missing owner as soon as it is made.
 *
 * @param object - a manifest. @returns undefined: its owners exist, or may not be read. @throws the connection's error,
 * or the signal's reason
 */
export async function ownerProblem(
  { lane, kinds }: { /** acts as the source's account */ readonly lane: ApiLane; readonly kinds: ClusterKinds },
  { key: { namespace }, object }: { readonly key: ObjectKey; readonly object: ObjectTree },
  signal: AbortSignal,
): Promise<ApplyProblem | undefined> {
  for (const owner of listAt(object, 'metadata.ownerReferences').slice(0, maxOwners)) {
    const [kindName, name, uid] = [textField(owner, 'kind'), textField(owner, 'name'), textField(owner, 'uid')]
    const { group } = parseApiVersion(textField(owner, 'apiVersion'))
    const kind = kinds.find({ group, kind: kindName })
    if (!kind || name === '') continue // the garbage collector waits for the kind; the API server refuses an empty name
    const what = `its owner ${kindName} ${name}`
    const wrong = (text: string): ApplyProblem => ({ kind: 'invalid', text: `${what} ${text}: ${whatFollows}` })
    if (kind.isNamespaced && namespace === '') return wrong('is in a namespace, and it is in none')
    const path = objectPath(kind, kind.isNamespaced ? { namespace, name } : { name })
    const options = { accept: metadataOnly.object, maxBytes: maxEventBytes }
    const { status, body } = await lane.json('GET', path, undefined, signal, options)
    if (status === 404) {
      const where = kind.isNamespaced ? `in namespace ${namespace}, where an owner has to be` : 'there'
      return { ...wrong(`is not ${where}`), absent: { path } }
    }
    const found = textAt(body, 'metadata.uid')
    if (status === 200 && found !== uid) return wrong(`has uid ${found}, not ${uid}`)
  }
  return undefined
}
