import t from 'tap'
import { parseKasConfig } from '../../../../src/kas/config/kas-config.ts'
import { stopPatienceMs } from '../../../../src/kas/config/stop-patience.ts'

const listens = ['agent', 'api', 'private_api']
const alone = 'directory: { file: /etc/kas/directory.yaml }\n'

t.test('the longest listen grace counts, whose ever it is', async (t) => {
  for (const name of listens) {
    const others = listens
      .filter((other) => other !== name)
      .map((other) => `${other}: { listen: { listen_grace_period: 1s } }`)
    const text = [...others, `${name}: { listen: { listen_grace_period: 90s } }`].join('\n')
    t.equal(stopPatienceMs(parseKasConfig('kas.yaml', alone + text).config), 100_000, name)
  }
})

t.test('the shutdown grace comes on top', async (t) => {
  const kubernetes = 'kubernetes_api: { listen: { listen_grace_period: 30s, shutdown_grace_period: 9m } }'
  const text = `agent: { listen: { listen_grace_period: 1s }, ${kubernetes} }`
  t.equal(stopPatienceMs(parseKasConfig('kas.yaml', alone + text).config), 30_000 + 540_000 + 10_000)
  t.equal(stopPatienceMs(parseKasConfig('kas.yaml', alone).config), 15_000, 'the defaults of the others: 5 s')
})
