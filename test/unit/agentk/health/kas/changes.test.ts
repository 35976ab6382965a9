import t from 'tap'
import { ago, condition, event, judge, judgeTables, object, ownedBy, pod, running } from './world.ts'

/** Changes in place that do not end and runs that do not begin, each next to one that goes well. */

const resized = (...conditions: readonly object[]) =>
  pod({
    ready: ['True', 3000],
    conditions,
    container: { ready: true, started: true, state: running(3000) },
  })
const pending = (reason: string, seconds = 300) => condition('PodResizePending', 'True', seconds, reason, 'capacity: 8')
const going = (reason = '', seconds = 300) => condition('PodResizeInProgress', 'True', seconds, reason, '')
const crashing = pod({
  conditions: [pending('Infeasible')],
  container: { restartCount: 5, state: { waiting: { reason: 'CrashLoopBackOff' } } },
})

const claim = (asked: string, has: string, ...conditions: readonly object[]) => grown({ conditions }, asked, has)
const grown = (status: object, asked = '2Gi', has = '1Gi') =>
  object('PersistentVolumeClaim', 'c', {
    spec: { volumeName: 'pv', resources: { requests: { storage: asked } } },
    status: { phase: 'Bound', capacity: { storage: has }, ...status },
  })
const holds = (type: string, seconds: number, message = '') => condition(type, 'True', seconds, '', message)
const growing = claim('2Gi', '1Gi')
const unfinished = claim('2Gi', '1Gi', holds('FileSystemResizePending', 900, 'Waiting for user to (re-)start a pod'))
const user = pod({
  spec: { volumes: [{ name: 'd', persistentVolumeClaim: { claimName: 'c' } }] },
  ready: ['True', 3000],
})
const ofClaim = (reason: string, seconds: number, type = 'Warning') =>
  event(growing, reason, `it says ${reason}`, { type, firstTimestamp: ago(seconds) })

const address = (ip: string | undefined) => ({ status: { loadBalancer: ip ? { ingress: [{ ip }] } : {} } })
const balancer = (ip?: string) => object('Service', 's', { spec: { type: 'LoadBalancer' }, ...address(ip) })
const ingress = (ip?: string) => object('networking.k8s.io/Ingress', 'i', { spec: {}, ...address(ip) })
const stuck = pod({ metadata: { deletionTimestamp: ago(300), deletionGracePeriodSeconds: 30 } })

const cron = (spec: object = {}, status: object = {}) =>
  object('batch/CronJob', 'report', { spec: { schedule: '0 0 31 2 *', ...spec }, status })
const ofCron = (reason: string, message: string, seconds = 120) =>
  event(cron(), reason, message, { firstTimestamp: ago(seconds), lastTimestamp: ago(seconds) })
const missed = [180, 120].map((seconds) => ofCron('MissSchedule', `Missed scheduled time: ${ago(seconds)}`, seconds))
const tooMany = [ofCron('TooManyMissedTimes', 'too many missed start times')]
const unread = [ofCron('InvalidSchedule', 'invalid schedule: 0 0 31 2 * : no time matches')]
const run = (created: number, ended?: number) =>
  ownedBy(
    cron(),
    object(
      'batch/Job',
      'report-1',
      { status: { conditions: ended === undefined ? [] : [holds('Complete', ended)], startTime: ago(created) } },
      { creationTimestamp: ago(created) },
    ),
  )

judgeTables(t, {
  'a Pod that is resized in place': [
    ['infeasible', 'Degraded Infeasible', [resized(pending('Infeasible'))]],
    ['infeasible, just now', 'Progressing Infeasible', [resized(pending('Infeasible', 30))]],
    ['deferred: it is tried again', 'Progressing Deferred', [resized(pending('Deferred', 9000))]],
    ['it fails', 'Degraded PodResizeInProgress', [resized(going('Error'))]],
    ['infeasible, while another one is made', 'Degraded Infeasible', [resized(pending('Infeasible'), going())]],
    ['it goes well', 'Progressing PodResizeInProgress', [resized(going('', 9000))]],
    ['it is over', 'Healthy', [resized(condition('PodResizeInProgress', 'False', 30))]],
    ['a crash comes first', 'Degraded CrashLoopBackOff', [crashing]],
  ],
  'a claim that grows': [
    [
      'its controller cannot',
      'Degraded ControllerResizeError',
      [claim('2Gi', '1Gi', holds('ControllerResizeError', 200))],
    ],
    ['its node cannot', 'Degraded NodeResizeError', [claim('2Gi', '1Gi', holds('NodeResizeError', 200))]],
    ['it is tried again', 'Progressing NodeResizeError', [claim('2Gi', '1Gi', holds('NodeResizeError', 60))]],
    [
      'it can never',
      'Degraded ControllerResizeInfeasible',
      [grown({ allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' } })],
    ],
    [
      'its driver is busy',
      'Progressing Resizing',
      [grown({ allocatedResourceStatuses: { storage: 'NodeResizePending' }, conditions: [holds('Resizing', 9000)] })],
    ],
    ['by an event', 'Degraded VolumeResizeFailed', [growing], [ofClaim('VolumeResizeFailed', 300)]],
    [
      'by an event that is hidden',
      'Progressing ExternalExpanding',
      [growing],
      [ofClaim('VolumeResizeFailed', 300)],
      ['Event'],
    ],
    ['it has grown since', 'Healthy', [claim('2Gi', '2Gi')], [ofClaim('VolumeResizeFailed', 300)]],
    ['it has more than it asks for', 'Healthy', [claim('1500Mi', '2Gi')]],
    ['no driver', 'Degraded ExternalExpanding', [growing], [ofClaim('ExternalExpanding', 900, 'Normal')]],
    ['its driver may begin', 'Progressing ExternalExpanding', [growing], [ofClaim('ExternalExpanding', 60, 'Normal')]],
    ['no Pod uses it', 'Suspended FileSystemResizePending', [unfinished]],
    ['a Pod is to be started anew', 'Degraded FileSystemResizePending', [unfinished, user]],
    ['Pods are hidden', 'Progressing FileSystemResizePending', [unfinished, user], [], ['Pod']],
    [
      'the kubelet has a moment',
      'Progressing FileSystemResizePending',
      [claim('2Gi', '1Gi', holds('FileSystemResizePending', 60)), user],
    ],
    [
      'the kubelet fails',
      'Degraded VolumeResizeFailed',
      [unfinished, user],
      [event(user, 'VolumeResizeFailed', 'NodeExpandVolume failed')],
    ],
  ],
  'a claim of another class of attributes': [
    ['refused', 'Degraded ModifyVolumeError', [claim('1Gi', '1Gi', holds('ModifyVolumeError', 200))]],
    ['infeasible', 'Degraded ModifyVolumeInfeasible', [grown({ modifyVolumeStatus: { status: 'Infeasible' } }, '1Gi')]],
    ['it waits', 'Progressing ModifyVolumePending', [grown({ modifyVolumeStatus: { status: 'Pending' } }, '1Gi')]],
    ['it goes well', 'Progressing ModifyingVolume', [claim('1Gi', '1Gi', holds('ModifyingVolume', 9000))]],
  ],
  'what controllers say in events alone': [
    [
      'a volume that is named does not fit',
      'Degraded VolumeMismatch',
      [
        object('PersistentVolumeClaim', 'c', { spec: { volumeName: 'pv' }, status: { phase: 'Pending' } }),
        object('PersistentVolume', 'pv', { spec: {}, status: { phase: 'Available' } }),
      ],
      [ofClaim('VolumeMismatch', 300)],
    ],
    ['it fits by now', 'Healthy', [claim('1Gi', '1Gi')], [ofClaim('VolumeMismatch', 300)]],
    [
      'a Pod that the runtime does not end',
      'Degraded TerminatingStuck',
      [stuck],
      [event(stuck, 'FailedKillPod', 'busy')],
    ],
    ['a balancer', 'Degraded FailedDeployModel', [balancer()], [event(balancer(), 'FailedDeployModel', 'no subnets')]],
    ['a balancer that came since', 'Healthy', [balancer('192.0.2.1')], [event(balancer(), 'FailedDeployModel', 'x')]],
    ['an Ingress', 'Degraded FailedBuildModel', [ingress()], [event(ingress(), 'FailedBuildModel', 'no certificate')]],
    ['an Ingress that has an address', 'Healthy', [ingress('192.0.2.1')], [event(ingress(), 'FailedBuildModel', 'x')]],
  ],
  'a CronJob whose runs do not begin': [
    ['no time matches', 'Degraded InvalidSchedule', [cron()], unread],
    ['mended since', 'Healthy', [cron({ schedule: '0 0 * * *' })], unread],
    [
      'no such time zone',
      'Degraded UnknownTimeZone',
      [cron({ timeZone: 'Europe/Atlantis' })],
      [ofCron('UnknownTimeZone', 'invalid timeZone: "Europe/Atlantis": unknown time zone')],
    ],
    ['one after the other is missed', 'Degraded MissSchedule', [cron()], missed],
    ['events hidden', 'Healthy', [cron()], missed, ['Event']],
    ['one is missed, by Forbid', 'Healthy', [cron({ concurrencyPolicy: 'Forbid' })], missed.slice(1)],
    ['while a run is active', 'Healthy', [cron({}, { active: [{ name: 'report-1' }] }), run(600)], missed],
    ['a run has ended since', 'Healthy', [cron(), run(600, 60)], missed],
    ['a run has begun since', 'Healthy', [cron({}, { lastScheduleTime: ago(60) }), run(60, 10)], missed],
    ['too many', 'Degraded TooManyMissedTimes', [cron()], tooMany],
    ['too many, and one runs', 'Progressing TooManyMissedTimes', [cron({}, { active: [{}] }), run(9000)], tooMany],
    ['too many, and one was made at once', 'Healthy', [cron(), run(120, 60)], tooMany],
    ['a Job of it that was made by hand', 'Healthy', [cron()], [ofCron('UnexpectedJob', 'Saw a job that it forgot')]],
  ],
})

t.test('what they say', async (t) => {
  const textOf = (...args: Parameters<typeof judge>) => judge(...args).cause?.text
  t.equal(textOf([resized(pending('Infeasible'))]), 'its resize is infeasible: capacity: 8')
  t.match(textOf([stuck], { events: [event(stuck, 'FailedKillPod', 'busy')] }), /, on node node-1: busy$/)
  t.equal(textOf([growing]), 'asks for 2Gi, has 1Gi: no driver has begun to resize the volume')
  t.equal(textOf([unfinished, user], { events: [event(user, 'VolumeResizeFailed', 'no room')] }), 'no room')
})
