import t from 'tap'
import { readConfig } from '../../../../src/agentk/config/config.ts'
import { parseFlags } from '../../../../src/agentk/config/flags.ts'

const env = { POD_NAMESPACE: 'ns', POD_NAME: 'pod', AGENTK_TOKEN: 'secret' }
const read = (...more: string[]) =>
  readConfig(parseFlags(['--kas-address=grpc://kas.test', ...more]), env).kas.allowHome

t.test('--kas-allow-home names hosts', async (t) => {
  t.strictSame(read(), [])
  t.strictSame(read('--kas-allow-home=Replicas.Test', '--kas-allow-home=10.0.0.1'), ['replicas.test', '10.0.0.1'])
  for (const bad of ['', '*', '*.test', '.test', 'a/b', 'wss://a', 'a:80', 'a b']) {
    t.throws(() => read(`--kas-allow-home=${bad}`), /--kas-allow-home ".*": expected a host name/, bad)
  }
})
