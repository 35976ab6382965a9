import t from 'tap'
import { refusal } from '../../../../../../src/agentk/modules/gitops/apply/refusal.ts'

const kindOf = (status: number, message: string) => refusal({ status, body: { message } } as never).kind

t.test('what only goes once another object has gone', async (t) => {
  const host = 'denied the request: host "a.example.com" and path "/" is already defined in ingress shop/old'
  const webhook = `admission webhook "validate.nginx.ingress.kubernetes.io" ${host}`
  for (const status of [400, 403]) t.equal(kindOf(status, webhook), 'taken')
  t.equal(kindOf(422, 'spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated'), 'taken')
  t.equal(
    kindOf(403, 'services "two" is forbidden: exceeded quota: few, requested: services=1, used: services=1'),
    'quota',
  )
  t.equal(kindOf(403, 'services is forbidden: User "deployer" cannot patch resource'), 'denied')
  t.equal(kindOf(400, 'admission webhook "other" denied the request: no'), 'invalid')
})
