import t from 'tap'
import { ReferenceDiscovery } from '../../../../../src/kas/repositories/gitaly/reference-discovery.ts'
import type { KasError } from '../../../../../src/lib/errors.ts'

const [a, b] = ['a'.repeat(40), 'b'.repeat(64)]
const line = (text: string) => `${(Buffer.byteLength(text) + 4).toString(16).padStart(4, '0')}${text}`
const head = `${line('# service=git-upload-pack\n')}0000`

function found(branch: string, text: string, pieceBytes = text.length) {
  const ref = branch.startsWith('refs/') ? branch : `refs/heads/${branch}`
  const discovery = new ReferenceDiscovery(branch === '' ? undefined : ref)
  const bytes = Buffer.from(text)
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes) discovery.take(bytes.subarray(at, at + pieceBytes))
    return discovery.end() ?? 'empty'
  } catch (error) {
    const { code, message } = error as KasError
    return code === 'REF_NOT_FOUND' ? message : code
  }
}

t.test('a branch among refs, however they are cut', async (t) => {
  const refs = `${head}${line(`${a} HEAD\0symref=HEAD:refs/heads/x agent=git/2\n`)}${line(`${b} refs/heads/main\n`)}${line(`${a} refs/tags/v1^{}\n`)}0000`
  const tags = `${head}${line(`${a} HEAD\0caps`)}${line(`${a} refs/tags/v1`)}${line(`${b} refs/tags/v1^{}`)}${line(`${a} refs/tags/v2`)}${line(`${a} refs/tags/v3`)}0000`
  for (const size of [1, 2, 5, 64, 1000]) {
    t.equal(found('main', refs, size), b)
    t.equal(found('', refs, size), a)
    t.equal(found('mai', refs, size), 'ref refs/heads/mai not found: the repository has main')
    t.match(found('v1', refs, size), 'ref refs/heads/v1 not found', 'a tag is no branch')
    t.equal(found('refs/tags/v1', tags, size), b, 'what the tag means')
    t.equal(found('refs/tags/v2', tags, size), a)
    t.equal(found('refs/tags/v3', tags, size), a, 'the last one')
    t.match(found('refs/tags/v4', tags, size), 'ref refs/tags/v4 not found')
  }
})

t.test('without HEAD the default is master, else the only branch', async (t) => {
  t.equal(found('', `${head}${line(`${a} refs/heads/master\0caps`)}0000`), a)
  const main = line(`${a} refs/heads/main\0caps`)
  const others = Array.from({ length: 9 }, (_, i) => line(`${b} refs/heads/b${i}`)).join('')
  t.equal(found('', `${head}${main}${line(`${b} refs/tags/v1`)}0000`), a)
  t.equal(
    found('', `${head}${main}${others}0000`),
    'ref HEAD not found: the repository has main, b0, b1, b2, b3 and 5 more',
  )
})

t.test('the name of the default branch', async (t) => {
  const nameIn = (wanted: string | undefined, text: string) => {
    const discovery = new ReferenceDiscovery(wanted)
    discovery.take(Buffer.from(`${head}${text}0000`))
    discovery.end()
    return discovery.branch
  }
  const named = line(`${a} HEAD\0caps symref=HEAD:refs/heads/a/x agent=git/2\n`)
  const branches = `${line(`${b} refs/heads/a/x`)}${line(`${a} refs/heads/master`)}`
  t.equal(nameIn(undefined, named + branches), 'a/x')
  t.equal(nameIn('refs/heads/master', named + branches), undefined, 'it is not what was asked for')
  t.equal(nameIn(undefined, line(`${a} HEAD\0caps`) + branches), undefined, 'HEAD is a commit, or the server is old')
  t.equal(nameIn(undefined, branches), 'master')
  t.equal(nameIn(undefined, line(`${b} refs/heads/a/x\0symref=HEAD:refs/heads/gone`)), 'a/x', 'the only one')
})

t.test('an empty repository', async (t) => {
  t.equal(found('main', `${head}${line(`${'0'.repeat(40)} capabilities^{}\0caps\n`)}0000`), 'empty')
  t.equal(found('', `${head}0000`), 'empty')
})

t.test('what is malformed or cut is neither empty nor without the branch', async (t) => {
  const whole = `${head}${line(`${a} HEAD\0caps\n`)}${line(`${a} refs/heads/main\n`)}0000`
  for (let length = 0; length < whole.length; length++) {
    const cut = found('other', whole.slice(0, length))
    t.equal(cut, 'REPOSITORY_FAILED', `${length} bytes`)
  }
  for (const text of [
    'HTTP',
    '0003',
    'fff9aaaa',
    line('ERR no\n'),
    `${head}${line('x')}0000`,
    `${whole}0000`,
    '0000',
  ]) {
    t.equal(found('other', text), 'REPOSITORY_FAILED', JSON.stringify(text))
  }
})
