import { realpathSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Warden } from '../../../dev/control-plane/warden.ts'
import { type MadeImage, makeImages } from '../../../dev/images/images.ts'
import { memoryFolder } from '../../runner/memory-folder.ts'
import { stagedPackage } from '../../support/staged-package.ts'
import { architecture, deleteContainers, unpackImage } from './unpacked-image.ts'
import { unpackedRunc } from './unpacked-runc.ts'

/** Images for this machine's processor, unpacked, in a folder that is removed after the test. */
export class MadeImages {
  readonly folder: string
  readonly made: readonly MadeImage[]

  private constructor(folder: string, made: readonly MadeImage[]) {
    this.folder = folder
    this.made = made
  }

  static async make(t: Test, ...names: string[]): Promise<MadeImages> {
    const folder = await emptyFolder(t)
    const staged = await stagedPackage()
    const made = await makeImages({ to: join(folder, 'first'), names, architectures: [architecture], staged })
    const images = new MadeImages(folder, made)
    for (const [i, { folder }] of made.entries()) await images.#unpack(t, names[i] ?? '', folder)
    return images
  }

  /** @param layouts - output folder of `npm run images` */
  static async given(t: Test, layouts: string, ...names: string[]): Promise<MadeImages> {
    const images = new MadeImages(await emptyFolder(t), [])
    for (const name of names) await images.#unpack(t, name, join(layouts, name))
    return images
  }

  async #unpack(t: Test, name: string, layout: string): Promise<void> {
    const runc = await unpackedRunc()
    const unpacked = this.unpacked(name)
    await unpackImage(layout, unpacked, runc)
    t.teardown(() => deleteContainers(unpacked, runc))
  }

  unpacked(name: string): string {
    return join(this.folder, 'unpacked', name)
  }

  /** The words before those of a program. @param user - user id, with the options of in-image.ts after a comma */
  program(name: string, user: string): string[] {
    return [process.execPath, join(import.meta.dirname, 'in-image.ts'), this.unpacked(name), user]
  }
}

async function emptyFolder(t: Test): Promise<string> {
  const folder = realpathSync(await mkdtemp(join(memoryFolder(2), 'kas-images-')))
  const warden = new Warden({ folders: [folder] })
  await warden.start()
  t.teardown(() => warden.stop())
  return folder
}
