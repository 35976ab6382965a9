import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { productName, readVersion, versionLine } from '../../../src/lib/version.ts'

t.test('the version is that of package.json', async (t) => {
  const file = join(import.meta.dirname, '../../../package.json')
  const { version } = JSON.parse(await readFile(file, 'utf8')) as { version: string }
  t.equal(readVersion().version, version)
})

t.test('--version says the commit where it is known', async (t) => {
  t.equal(versionLine('kas', { version: '1.2.3', commit: 'abc' }), 'kas 1.2.3 (abc)')
  t.equal(versionLine('agentk', { version: '1.2.3', commit: 'unknown' }), 'agentk 1.2.3')
})

t.test('product names have the form of upstream', async (t) => {
  t.equal(productName('gitlab-kas', { version: '1.2.3', commit: 'abc' }), 'gitlab-kas/v1.2.3/abc')
})
