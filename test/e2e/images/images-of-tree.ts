import { existsSync } from 'node:fs'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { makeImages } from '../../../dev/images/images.ts'
import { oneAtATime } from '../../support/one-at-a-time.ts'
import { architecture } from './unpacked-image.ts'

/** kas and agentk for this machine, made once for all files of a run. @returns their folder */
export async function imagesOfTree(): Promise<string> {
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
