import t from 'tap'
import { failureOf } from '../../../../src/kas/repositories/git-process.ts'

const options = { env: {}, maxMemoryBytes: 2 ** 28, silenceTimeoutMs: 1000, maxRunMs: 1000, maxCpuSeconds: 60 }
const remotes = ['https://git.example/shop.git', 'ssh://git@git.example/shop.git', 'git@git.example:shop.git']
const locals = ['/srv/git/shop.git', 'file:///srv/git/shop.git']

t.test('a server that has no memory left does not have the commit refused: its next answer may come', async (t) => {
  const failure = (url: string | undefined, errors: string) =>
    failureOf(errors, { status: 128, address: url === undefined ? undefined : { url } }, options)
  const ofServer = [
    'remote: fatal: Out of memory, malloc failed (tried to allocate 5 bytes)\nfatal: early EOF',
    'remote: error: attempting to allocate 9 over limit 8\nfatal: early EOF',
    'remote: aborting: pack-objects died of signal 24\nfatal: early EOF',
  ]
  for (const errors of ofServer) {
    for (const url of remotes) {
      const found = failure(url, errors)
      t.equal(found.isRefusal, false, `${url}: ${errors}`)
      t.equal(found.message, errors, 'it is quoted')
    }
    for (const url of locals) t.equal(failure(url, errors).isRefusal, true, `kas serves ${url} itself`)
  }
  for (const url of [...remotes, ...locals, undefined]) {
    const both = 'remote: Counting objects: 3, done.\nfatal: Out of memory, malloc failed'
    t.match(failure(url, both), { isRefusal: true, message: /256 MiB of memory/ }, 'it is the git of kas')
    t.match(failure(url, 'error: index-pack died of signal 24'), { isRefusal: true, message: /60 s/ })
  }
})
