import t from 'tap'
import { countRequests } from '../../../soak/exactly-once/audit-log.ts'

const configMaps = '/api/v1/namespaces/n/configmaps'
const exec = (words: string) => `/api/v1/namespaces/n/pods/pod/exec?${words}&container=main&stdout=true`
const line = (auditID: string, verb: string, requestURI: string, subresource?: string) =>
  `${JSON.stringify({ auditID, verb, requestURI, objectRef: { resource: 'r', ...(subresource ? { subresource } : {}) } })}\n`

t.test('a request counts once, whatever stages it reached; two requests of one identity count twice', async (t) => {
  const log = [
    line('1', 'create', `${configMaps}?fieldManager=made-once`),
    line('1', 'create', `${configMaps}?fieldManager=made-once`),
    line('2', 'create', `${configMaps}?fieldManager=made-twice`),
    line('3', 'create', `${configMaps}?fieldManager=made-twice`),
    line('4', 'get', exec('command=sh&command=run-once'), 'exec'),
    line('5', 'get', exec('command=sh&command=run-twice'), 'exec'),
    line('6', 'create', exec('command=sh&command=run-twice'), 'exec'),
  ].join('')
  t.strictSame(
    [...countRequests(log)],
    [
      ['made-once', 1],
      ['made-twice', 2],
      ['run-once', 1],
      ['run-twice', 2],
    ],
  )
})

t.test('what reads, and what has no identity, is not counted', async (t) => {
  const log = line('1', 'get', `${configMaps}/made?fieldManager=x`) + line('2', 'create', configMaps)
  t.strictSame([...countRequests(log)], [])
})
