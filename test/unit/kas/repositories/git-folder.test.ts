import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { DiskUse } from '../../../../src/kas/repositories/disk-use.ts'
import { GitFolder } from '../../../../src/kas/repositories/git-folder.ts'
import { Turns } from '../../../../src/lib/turns.ts'

const bounds = { silenceTimeoutMs: 1000, maxRunMs: 1000, maxCpuSeconds: 1, maxMemoryBytes: 2 ** 20, env: {} }

t.test('a size that is found after the removal counts no more', async (t) => {
  const path = join(t.testdir(), 'folder')
  const fill = async () => {
    await mkdir(path)
    await writeFile(join(path, 'pack'), 'x'.repeat(1000))
  }
  const disk = new DiskUse()
  const turns = new Turns<unknown>({ maxRunning: 1 })
  const components = { address: { url: '/none' }, turns, disk, source: 'agent 1' }
  const folder = new GitFolder(path, components, bounds)
  await fill()
  t.equal(await folder.size(), 1000)
  t.equal(disk.total, 1000)
  await folder.remove()
  t.equal(disk.total, 0)
  await fill() // a check that began before the removal still sees these files
  t.equal(await folder.size(), 1000)
  t.equal(disk.total, 0)
})
