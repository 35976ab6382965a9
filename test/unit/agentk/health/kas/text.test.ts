import t from 'tap'
import { bounded } from '../../../../../src/agentk/health/kas/text.ts'

t.test('what is too long loses its middle, between two words', async (t) => {
  const words = Array.from({ length: 200 }, (_, i) => `word${i}`)
  for (const most of [256, 512, 100]) {
    const text = bounded(words.join(' '), most)
    t.ok(text.length <= most)
    for (const word of text.split(' ')) t.ok(word === '…' || words.includes(word), `${most}: ${word}`)
    t.match(text, /^word0 .* … .* word199$/)
  }
  t.equal(bounded('x'.repeat(600)).length, 512, 'of one long word it is its middle')
  t.equal(bounded('a short one'), 'a short one')
})

t.test('uids of Pods are left out', async (t) => {
  const uid = '5ef20422-322b-4887-9a1d-feb5e78f784a'
  t.equal(
    bounded(`back-off 40s restarting failed container=c pod=liveness_s(${uid})`),
    'back-off 40s restarting failed container=c pod=liveness',
  )
  t.equal(bounded(`(pod: "root-refused_s(${uid})", container: c)`), '(pod: "root-refused", container: c)')
  t.equal(bounded(`volume ${uid} is gone`), `volume ${uid} is gone`, 'others say what is meant')
})
