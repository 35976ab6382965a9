import t from 'tap'
import { boundedFindings } from '../../../../src/lib/doctor/findings.ts'

t.test("Node's advice about authorities does not stand before that of the finding", async (t) => {
  const said =
    'kas.test:443: self-signed certificate; if the root CA is installed locally, try running Node.js with --use-system-ca'
  const finding = { check: 'kas', state: 'failed', text: said, advice: 'give --kas-ca-cert-file' } as const
  t.strictSame(boundedFindings([finding]), [{ ...finding, text: 'kas.test:443: self-signed certificate' }])
})
