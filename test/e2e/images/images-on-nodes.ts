import t, { type Test } from 'tap'
import { skip as withoutHelm } from '../../support/charts/chart-words.ts'
import type { NodeCluster } from '../../support/nodes/node-cluster.ts'
import { onNodes } from '../../support/nodes/on-nodes.ts'
import { imagesOfTree } from './images-of-tree.ts'
import { lacking } from './unpacked-runc.ts'

/** handed on to the run on the nodes, where there is no way to Debian's packages */
const imagesVariable = 'KAS_CHARTS_IMAGES'
const nodes = 3
const timeoutMs = 220_000

/**
 * A test on three real nodes, and the images of this tree, which they have not got yet.
 *
 * @param file - `import.meta.url` of the file whose only test this is
 */
export async function imagesOnNodes(
  name: string,
  file: string,
  play: (t: Test, given: { cluster: NodeCluster; images: string }) => Promise<void>,
): Promise<void> {
  if (process.env.KUBETEST_DIR === undefined) {
    const skip = withoutHelm || (process.env.KUBETEST_NODES ? await lacking() : 'needs KUBETEST_NODES')
    if (skip) return void t.test(name, { skip }, () => undefined)
    process.env[imagesVariable] = await imagesOfTree()
  }
  onNodes(name, { file, nodes, timeoutMs }, (t, cluster) =>
    play(t, { cluster, images: process.env[imagesVariable] ?? '' }),
  )
}
