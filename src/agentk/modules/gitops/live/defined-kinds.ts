import { builtIn } from '../../../../kubernetes/kind.ts'
import { textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { metadataOnly, ObjectList } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'

const definitions = builtIn.customResourceDefinitions
/** definitions in a page: some 4 KiB of metadata each */
const pageSize = 500
/** for one page, with the time in which it waits for its turn. ms */
const pageTimeoutMs = 120_000

/**
 * Kinds of some groups that the cluster defines, whether or not anybody serves them now: `group/Kind`.
 *
 * @returns undefined: that cannot be read. @throws the connection's error, or the signal's reason
 */
export async function definedKinds(
  groups: ReadonlySet<string>,
  lane: ApiLane,
  signal: AbortSignal,
): Promise<ReadonlySet<string> | undefined> {
  const options = { path: collectionPath(definitions), accept: metadataOnly.list, pageSize, timeoutMs: pageTimeoutMs }
  const list = new ObjectList(lane, options)
  const names: string[] = []
  for (let isLast = false; !isLast; ) {
    const page = await list.page(signal)
    if (!('items' in page)) return undefined
    names.push(...page.items.map((item) => textAt(item, 'metadata.name')))
    isLast = page.isLast
  }
  // `widgets.example.com`: the group is what follows the first dot
  const some = names.filter((name) => groups.has(name.slice(name.indexOf('.') + 1)))
  const read = async (name: string) =>
    lane.json('GET', objectPath(definitions, { name }), undefined, signal, {
      maxBytes: maxEventBytes,
    })
  const answers = await Promise.all(some.map(read))
  if (answers.some(({ status }) => status !== 200 && status !== 404)) return undefined
  return new Set(answers.map(({ body }) => `${textAt(body, 'spec.group')}/${textAt(body, 'spec.names.kind')}`))
}
