import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

/** A string literal with one of the keys between our kas and our agentk. */
const key =
  /(['"`])(?:kas-(?:features|pod|role|replica|home|standby|ping-interval-ms)(?:-address)?|gitlab-kas-route)\1/i

const filesWithKeys = (root: string) =>
  globSync('**/*.ts', { cwd: root }).filter((file) => key.test(readFileSync(join(root, file), 'utf8')))

t.test('the keys between kas and agentk stand in one file', async (t) => {
  t.strictSame(filesWithKeys(join(import.meta.dirname, '../../src')), ['proto/placement.ts'])
})

t.test('one elsewhere is found', async (t) => {
  const root = t.testdir({
    'a.ts': "export const home = metadata['kas-home-address']\n",
    'b.ts': "export const route = 'Gitlab-Kas-Route'\n",
    'c.ts': "export const name = 'kas-homes'\n",
  })
  t.strictSame(filesWithKeys(root).sort(), ['a.ts', 'b.ts'])
})
