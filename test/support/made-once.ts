import { existsSync } from 'node:fs'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { oneAtATime } from './one-at-a-time.ts'

/**
 * Makes a folder that several files of a run only read; the first one makes it.
 *
 * @param make - fills the folder that it gets, which is moved afterwards
 * @returns the final folder
 */
export async function madeOnce(name: string, make: (part: string) => Promise<unknown>): Promise<string> {
  const shared = process.env.KAS_TEST_FOLDER ?? (await mkdtemp(join(tmpdir(), 'kas-test-')))
  if (process.env.KAS_TEST_FOLDER === undefined) t.teardown(() => rm(shared, { recursive: true, force: true }))
  const [folder, part] = [join(shared, name), join(shared, `${name}.part`)]
  await oneAtATime(folder, async () => {
    if (existsSync(folder)) return
    await rm(part, { recursive: true, force: true })
    await make(part)
    await rename(part, folder)
  })
  return folder
}
