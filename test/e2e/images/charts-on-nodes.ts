import { existsSync } from 'node:fs'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { makeImages } from '../../../dev/images/images.ts'
import { skip as withoutHelm } from '../../support/charts/chart-words.ts'
import { ChartsGround } from '../../support/nodes/charts-ground.ts'
import type { NodeCluster } from '../../support/nodes/node-cluster.ts'
import { onNodes } from '../../support/nodes/on-nodes.ts'
import { oneAtATime } from '../../support/one-at-a-time.ts'
import { architecture } from './unpacked-image.ts'
import { lacking } from './unpacked-runc.ts'

/** handed on to the run on the nodes, where there is no way to Debian's packages */
const imagesVariable = 'KAS_CHARTS_IMAGES'
const nodes = 3
const timeoutMs = 200_000

/**
 * A test on three real nodes that have the images of this tree; nothing is installed yet.
 *
 * @param file - `import.meta.url` of the file whose only test this is
 */
export async function chartsOnNodes(
  file: string,
  play: (t: Test, ground: ChartsGround) => Promise<void>,
): Promise<void> {
  await imagesOnNodes('charts on real nodes', file, async (t, { cluster, images }) =>
    play(t, await ChartsGround.start(t, cluster, { images: [images] })),
  )
}

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

/** Made once for all files of a run. @returns their folder */
async function imagesOfTree(): Promise<string> {
  const shared = process.env.KAS_TEST_FOLDER ?? (await mkdtemp(join(tmpdir(), 'kas-charts-images-')))
  if (process.env.KAS_TEST_FOLDER === undefined) t.teardown(() => rm(shared, { recursive: true, force: true }))
  const [images, part] = [join(shared, 'images'), join(shared, 'images.part')]
  await oneAtATime(images, async () => {
    if (existsSync(images)) return
    await rm(part, { recursive: true, force: true })
    await makeImages({ to: part, names: ['kas', 'agentk'], architectures: [architecture] })
    await rename(part, images)
  })
  return images
}
