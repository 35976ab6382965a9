import { makeImages } from '../../../dev/images/images.ts'
import { madeOnce } from '../../support/made-once.ts'
import { stagedPackage } from '../../support/staged-package.ts'
import { architecture } from './unpacked-image.ts'

/** Makes kas and agentk for this machine, once for all files of a run. @returns their folder */
export function imagesOfTree(): Promise<string> {
  return madeOnce('images', async (to) =>
    makeImages({ to, names: ['kas', 'agentk'], architectures: [architecture], staged: await stagedPackage() }),
  )
}
