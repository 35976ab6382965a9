import t from 'tap'
import { runKas } from '../../../support/kas-command.ts'

t.test("the error of a command has no advice of Node's", async (t) => {
  const said = 'self-signed certificate; if the root CA is installed locally, try running Node.js with --use-system-ca'
  const run = () => Promise.reject(new Error(said))
  const command = { words: 'ask', summary: '', load: async () => ({ usage: 'ask', run }) }
  const groups = [{ title: '', commands: [command] }]
  const { code, stderr } = await runKas(['ask'], '', '', groups as never)
  t.equal(code, 1)
  t.equal(stderr, 'kas ask: self-signed certificate\n')
})
