import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Staged, stage } from '../../dev/package/package.ts'
import { madeOnce } from './made-once.ts'

/** Makes the content of this tree's package, once for all files of a run, which only read it. */
export async function stagedPackage(): Promise<Staged> {
  const folder = await madeOnce('package', async (part) => {
    await mkdir(join(part, 'content'), { recursive: true })
    await writeFile(join(part, 'staged.json'), JSON.stringify(await stage(join(part, 'content'))))
  })
  const staged = JSON.parse(await readFile(join(folder, 'staged.json'), 'utf8')) as Staged
  return { ...staged, folder: join(folder, 'content') }
}
